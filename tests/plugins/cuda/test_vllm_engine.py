"""The vllm_engine backend against a stand-in for vLLM (``standin/``), which cannot be installed here.

Calls, counts, streams, cancellation, faults and settings are ours and are tested; of vLLM itself nothing is.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apex_cuda import vllm_backend as settings_of
from apex_cuda.vllm_backend import vllm_backend
from apex_framework.errors import BackendError, ConfigError, Failure, MissingExtraError, ModelError
from apex_framework.interfaces import LLMRequest, LLMStatus
from apex_framework.plugins import load_plugins
from apex_framework.testing.llm import check_llm_backend

QUESTION = LLMRequest("What is a queue?", 40, system="Be brief.", seed=5)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder that looks like a model."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    config = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 8192, "dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    head = json.dumps({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(16))
    return folder


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vLLM, and a transformers whose tokens are bytes, for this process and its workers."""
    put_in_place(tmp_path, monkeypatch, "engine", "vllm")
    put_in_place(tmp_path, monkeypatch, "tokenizer", "transformers")


def put_in_place(folder: Path, monkeypatch: pytest.MonkeyPatch, part: str, name: str) -> None:
    place = shutil.copytree(Path(__file__).parent / "standin" / part, folder / part)
    (place / f"{name}-0.0.0.dist-info").mkdir()
    (place / f"{name}-0.0.0.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.0\n"
    )
    monkeypatch.syspath_prepend(str(place))


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (settings_of.MODEL, settings_of.CARDS, settings_of.SHARE, "APEX_NUM_LLM_INSTANCES"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.slow
def test_the_kit_passes(stand_in: None, model: Path) -> None:
    check_llm_backend(lambda: vllm_backend(str(model)))


@pytest.mark.slow
def test_what_a_real_tokenizer_counts_is_what_the_engine_gets(
    tiny_transformers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_place(tmp_path, monkeypatch, "engine", "vllm")

    async def main() -> None:
        backend = vllm_backend(model=tiny_transformers)
        for system, prompt in (
            ("", "a"),
            ("Be brief.", "def f(x):\n    return x"),
            ("", "<|end|> Straße 漢字 \U0001f40d"),
        ):
            request = LLMRequest(prompt, 9, system=system)
            result = await backend.generate(request)
            assert result.tokens_in == backend.count_request(request) and result.tokens_out == 9
            assert result.text.isascii() and backend.count_tokens(result.text) <= 9
        await backend.close()

    asyncio.run(main())


def test_counts_seeds_stops_and_pieces(stand_in: None, model: Path) -> None:
    async def main() -> None:
        backend = vllm_backend(model=model)
        first = await backend.generate(QUESTION)
        assert first.status is LLMStatus.LENGTH and first.tokens_out == 40
        assert first.tokens_in == backend.count_request(QUESTION) > backend.count_tokens("Be brief.What is a queue?")
        chunks = [chunk async for chunk in backend.stream(QUESTION)]
        assert len(chunks) > 1 and chunks[-1].result == first == await backend.generate(QUESTION)

        def warm(seed: int) -> LLMRequest:
            return LLMRequest("What is a queue?", 12, temperature=1.0, top_p=0.9, seed=seed)

        one, two = await backend.generate(warm(1)), await backend.generate(warm(2))
        assert one == await backend.generate(warm(1)) and one.text != two.text
        word = first.text[10:13]
        cut = await backend.generate(LLMRequest(QUESTION.prompt, 40, system=QUESTION.system, seed=5, stop=(word,)))
        assert cut.text == first.text[: first.text.index(word)] and cut.status is LLMStatus.OK
        who = await backend.identity()
        assert (who.context_tokens, who.quantisation, who.server) == (8192, "bfloat16", "vllm 0.0.0")
        assert (await backend.health()).version == "vllm 0.0.0"
        await backend.close()

    asyncio.run(main())


def test_a_cancelled_call_is_aborted_and_the_process_goes_on(stand_in: None, model: Path) -> None:
    async def main() -> None:
        backend = vllm_backend(model=model)
        await backend.warm()
        (pid,) = backend.processes
        async with contextlib.aclosing(backend.stream(LLMRequest("long", 8000))) as pieces:
            await anext(pieces)
        assert (await backend.generate(QUESTION)).tokens_out == 40 and backend.processes == (pid,)
        await backend.close()

    asyncio.run(main())


def test_what_goes_wrong_is_named(stand_in: None, model: Path) -> None:
    async def main() -> None:
        backend = vllm_backend(model=model)

        async def failure(prompt: str) -> BackendError:
            with pytest.raises(BackendError) as caught:
                await backend.generate(LLMRequest(prompt, 20))
            return caught.value

        long = await failure("word " * 2000)
        assert long.kind is Failure.CONTEXT_EXCEEDED and "the context 8,192" in str(long)
        ended = await failure("end it")
        assert ended.kind is Failure.INCOMPLETE and "abort" in str(ended)
        (pid,) = backend.processes
        died = await failure("fail in a step")
        assert died.kind is Failure.WORKER_DIED and "illegal memory access" in str(died)
        assert (await backend.generate(QUESTION)).tokens_out == 40 and backend.processes != (pid,)
        await backend.close()
        refused = vllm_backend(model=model, gpu_memory_utilization=0.123)
        with pytest.raises(BackendError, match=r"vLLM cannot load .*tiny: Free memory .* Reduce it") as caught:
            await refused.generate(QUESTION)
        assert caught.value.kind is Failure.NOT_FOUND and "graphics cards" in caught.value.remedy
        await refused.close()

    asyncio.run(main())


def test_each_instance_has_cards_of_its_own(stand_in: None, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [f"{n}" for n in range(4)]
    monkeypatch.setattr(settings_of, "graphics_cards", lambda environ: tuple(cards))

    def shares() -> list[str]:
        return [each["CUDA_VISIBLE_DEVICES"] for each in vllm_backend(str(model))._settings.environ]

    assert shares() == ["0", "1", "2", "3"]
    monkeypatch.setenv(settings_of.CARDS, "2")
    assert shares() == ["0,1", "2,3"]
    monkeypatch.setenv("APEX_NUM_LLM_INSTANCES", "1")
    assert shares() == ["0,1"]
    monkeypatch.setenv("APEX_NUM_LLM_INSTANCES", "3")
    with pytest.raises(ConfigError, match="3 instances with 2 graphics cards each need 6, and there are 4"):
        shares()


@pytest.mark.parametrize(
    ("variable", "values"),
    [(settings_of.CARDS, ["0", "-1", "two", "1.5"]), (settings_of.SHARE, ["0", "1.1", "nan", "-0.5", "half"])],
)
def test_bad_settings_are_told(
    stand_in: None, model: Path, monkeypatch: pytest.MonkeyPatch, variable: str, values: list[str]
) -> None:
    for value in values:
        monkeypatch.setenv(variable, value)
        with pytest.raises(ConfigError, match=f"^{variable} .*, not '{value}'$"):
            vllm_backend(str(model))


def test_no_model_and_no_vllm_are_told(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("vllm") is None:
        with pytest.raises(MissingExtraError, match=r"needs the extra \[vllm\]"):
            vllm_backend(str(model))
        with pytest.raises(MissingExtraError) as caught:
            load_plugins().catalog.make("llm_backend", f"vllm_engine:{model}")
        assert caught.value.remedy == "pip install 'apex-framework[vllm]'" and caught.value.exit_status == 3
    put_in_place(tmp_path, monkeypatch, "engine", "vllm")
    put_in_place(tmp_path, monkeypatch, "tokenizer", "transformers")
    with pytest.raises(ModelError, match="vllm_engine needs a model"):
        vllm_backend()
    monkeypatch.setenv(settings_of.MODEL, str(model))
    assert vllm_backend().capabilities.model_id == "tiny"


def test_a_call_that_is_never_aborted_is_caught(stand_in: None, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: without the abort, the stand-in refuses the next call."""
    code = f"""
import sys, os
os.environ.update({settings_of.QUIET!r})
from apex_cuda.vllm_engine import VLLMEngine
from apex_framework.workers import Ask
engine = VLLMEngine()
options = dict(path={str(model)!r}, context=8192, tensor_parallel_size=1, gpu_memory_utilization=0.9)
engine.load(options, tokenizer_only=False)
if sys.argv[1] == "planted":
    engine._engine.abort_request = lambda ids: None
ask = Ask("", "long", 100, 0.0, 1.0, 0, ())
looks = iter([False, False, True])
assert len(list(engine.generate(ask, lambda: next(looks)))) == 2
list(engine.generate(ask, lambda: False))
"""
    for what, status in (("honest", 0), ("planted", 1)):
        ended = subprocess.run(
            [sys.executable, "-c", code, what], capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}
        )
        assert ended.returncode == status and ("neither ended nor aborted" in ended.stderr) == bool(status), ended
