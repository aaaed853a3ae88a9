"""The llama_cpp backend with the real llama.cpp and a tiny model."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
from pathlib import Path

import pytest

from apex_framework.errors import BackendError, ConfigError, Failure, ModelError
from apex_framework.interfaces import LLMRequest, LLMStatus
from apex_framework.plugins import load_plugins
from apex_framework.testing.gguf import write_tiny_gguf
from apex_framework.testing.llm import check_llm_backend
from apex_metal.backend import llama_cpp_backend

QUESTION = LLMRequest("What is a queue?", 40, system="Be brief.", seed=5)


@pytest.mark.slow
def test_the_kit_passes(tiny: Path) -> None:
    check_llm_backend(lambda: llama_cpp_backend(str(tiny)))


def test_an_answer_depends_on_the_request_alone(tiny: Path) -> None:
    async def main() -> None:
        backend = llama_cpp_backend(str(tiny), instances=2)
        first = await backend.generate(QUESTION)
        assert first.status is LLMStatus.LENGTH and first.tokens_out == 40 and first.text.isascii()
        for before in ("What is a queue?", "What is a queue? And", "Something else."):
            await backend.generate(LLMRequest(before, 25, system="Be brief."))
            assert await backend.generate(QUESTION) == first
        for role in ("manager", "coder"):  # one on each instance
            asked = LLMRequest(QUESTION.prompt, 40, system=QUESTION.system, seed=5, role=role)
            assert await backend.generate(asked) == first
        assert len(backend.processes) == 2
        await backend.close()

    asyncio.run(main())


def test_counts_are_those_that_the_model_reports(tiny: Path) -> None:
    async def main() -> None:
        backend = llama_cpp_backend(str(tiny))
        for system, prompt in (
            ("", "a"),
            ("Be brief.", "def f(x):\n    return x"),
            ("", "<|end|> Straße 漢字 \U0001f40d"),
        ):
            request = LLMRequest(prompt, 3, system=system)
            assert backend.count_request(request) == (await backend.generate(request)).tokens_in
        assert backend.count_tokens("<|end|>") > 1, "in a text a control token is text"
        await backend.close()

    asyncio.run(main())


def test_chance_is_seeded_and_stops_stop(tiny: Path) -> None:
    async def main() -> None:
        backend = llama_cpp_backend(str(tiny))

        def warm(seed: int) -> LLMRequest:
            return LLMRequest("What is a queue?", 12, temperature=1.0, top_p=0.9, seed=seed)

        one, two = await backend.generate(warm(1)), await backend.generate(warm(2))
        assert one == await backend.generate(warm(1)) and one.text != two.text
        whole = await backend.generate(QUESTION)
        word = whole.text[9:12]
        cut = await backend.generate(LLMRequest(QUESTION.prompt, 40, system=QUESTION.system, seed=5, stop=(word,)))
        assert cut.text == whole.text[: whole.text.index(word)] and cut.status is LLMStatus.OK
        await backend.close()

    asyncio.run(main())


def test_a_model_that_ends_its_answer_says_ok_and_one_without_a_template_works(tmp_path: Path, tiny: Path) -> None:
    async def main() -> None:
        plain = llama_cpp_backend(path=write_tiny_gguf(tmp_path / "plain.gguf", template=""))
        result = await plain.generate(LLMRequest("a b", 5, system="s"))
        assert result.tokens_in == plain.count_tokens("s\n\na b")
        await plain.close()

    asyncio.run(main())


def test_a_prompt_that_does_not_fit_is_refused_and_one_that_nearly_fits_is_cut(tiny: Path) -> None:
    async def main() -> None:
        backend = llama_cpp_backend(str(tiny), context=256)
        assert backend.capabilities.context_tokens == 256
        with pytest.raises(BackendError, match="and the context 256") as caught:
            await backend.generate(LLMRequest("word " * 300, 5))
        assert caught.value.kind is Failure.CONTEXT_EXCEEDED and caught.value.free
        request = LLMRequest("a" * 50, 10_000)
        room = 256 - backend.count_request(request)
        result = await backend.generate(request)
        assert result.tokens_out == room and result.status is LLMStatus.LENGTH
        await backend.close()

    asyncio.run(main())


def test_f33_kill_9_of_the_real_process_under_a_call(tiny: Path) -> None:
    async def main() -> None:
        backend = llama_cpp_backend(str(tiny))
        first = await backend.generate(QUESTION)
        begun = asyncio.Event()

        async def long() -> None:
            async for _ in backend.stream(LLMRequest("long", 8000)):
                begun.set()

        call = asyncio.ensure_future(long())
        await begun.wait()
        os.kill(backend.processes[0], signal.SIGKILL)
        (ended,) = await asyncio.gather(call, return_exceptions=True)
        assert isinstance(ended, BackendError) and ended.kind is Failure.WORKER_DIED and ended.partial
        assert await backend.generate(QUESTION) == first
        await backend.close()

    asyncio.run(main())


def test_cancelling_a_long_prompt_or_answer_leaves_the_process_working(tiny: Path) -> None:
    async def main() -> None:
        backend = llama_cpp_backend(str(tiny), batch=64)
        await backend.warm()
        pids = backend.processes
        for request in (LLMRequest("word " * 1500, 5), LLMRequest("x", 8000)):
            call = asyncio.ensure_future(backend.generate(request))
            await asyncio.sleep(0.05)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            assert (await backend.generate(QUESTION)).tokens_out == 40
        assert backend.processes == pids
        await backend.close()

    asyncio.run(main())


def test_what_llama_cpp_refuses_is_told_with_its_own_reason(tmp_path: Path, tiny: Path) -> None:
    async def main() -> None:
        odd = llama_cpp_backend(path=write_tiny_gguf(tmp_path / "odd.gguf", architecture="nosuch"))
        with pytest.raises(BackendError, match=r"cannot load .*unknown model architecture: 'nosuch'") as caught:
            await odd.generate(QUESTION)
        assert caught.value.kind is Failure.NOT_FOUND and "\n" not in str(caught.value)
        await odd.close()

    asyncio.run(main())


def test_who_it_is_is_recorded(tiny: Path) -> None:
    digest = hashlib.sha256(tiny.read_bytes()).hexdigest()

    async def main() -> None:
        backend = llama_cpp_backend(str(tiny))
        who = await backend.identity()
        assert who.model_digest == f"sha256:{digest}"
        assert (who.model_id, who.quantisation, who.context_tokens) == ("tiny", "F32", 8192)
        assert who.server.startswith("llama-cpp-python ") and backend.capabilities.determinism == "seeded"
        assert (await backend.health()).detail == "not loaded yet"
        await backend.warm()
        assert (await backend.health()).version == who.server
        await backend.close()

    asyncio.run(main())


def test_settings_come_from_variables_too(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = load_plugins().catalog
    monkeypatch.delenv("APEX_GGUF_MODEL_PATH", raising=False)
    with pytest.raises(ModelError, match="needs a model file"):
        catalog.make("llm_backend", "llama_cpp")
    monkeypatch.setenv("APEX_GGUF_MODEL_PATH", str(tiny))
    monkeypatch.setenv("APEX_NUM_LLM_INSTANCES", "3")
    assert len(catalog.make("llm_backend", "llama_cpp_metal")._alive().instances) == 3
    assert catalog.make("llm_backend", f"llama_cpp:{tiny}").capabilities.model_id == "tiny"
    for wrong in ("0", "-1", "many", "1000", "nan"):
        monkeypatch.setenv("APEX_NUM_LLM_INSTANCES", wrong)
        with pytest.raises(ConfigError, match="APEX_NUM_LLM_INSTANCES"):
            catalog.make("llm_backend", "llama_cpp")
    for options in ({"context": 0}, {"context": 9000}, {"context": "much"}, {"batch": 0}):
        with pytest.raises(ConfigError):
            llama_cpp_backend(str(tiny), instances=1, **options)  # type: ignore[arg-type]  # on purpose


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_instances_map_the_same_file(tiny: Path) -> None:
    async def pids() -> tuple[int, ...]:
        await backend.warm()
        return backend.processes

    backend = llama_cpp_backend(str(tiny), instances=2)
    for pid in asyncio.run(pids()):
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        assert any(line.endswith(str(tiny)) and line.split()[1].startswith("r--") for line in maps)
    asyncio.run(backend.close())
