"""Backend ``openai`` against a real server: llama.cpp behind ``llama_cpp.server``, with a tiny model of random weights."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import LLMRequest, LLMResult, LLMStatus
from apex_framework.testing.llm import check_llm_backend

pytest.importorskip("aiohttp", reason="the extra [http] is not installed")
for needed in ("llama_cpp", "uvicorn", "fastapi", "gguf"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"no {needed}: llama_cpp.server cannot be run here", allow_module_level=True)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from apex_framework.testing.gguf import write_tiny_gguf

    return write_tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture(scope="module")
def url(model_file: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--port", str(port), "--n_ctx", "2048", "--n_threads", "1", "--n_threads_batch", "1"]
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(model_file), "--model_alias", "tiny", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 60
            while not listening(port):
                assert process.poll() is None and time.monotonic() < until, "the server does not start"
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def make(url: str, **options):
    from apex_llm.openai import OpenAIBackend

    return OpenAIBackend("tiny", base_url=url, context_tokens=2048, **options)


def test_it_passes_the_kit(url: str, model_file: Path) -> None:
    """With the model's own tokenizer: the kit compares counts, and estimates of so odd a model are far off.

    What the model made of fewer tokens than its tokenizer makes of it again counts as made.
    """
    import llama_cpp

    from apex_llm.openai import OpenAIBackend

    vocabulary = llama_cpp.Llama(str(model_file), vocab_only=True, verbose=False)

    class Exact(OpenAIBackend):
        made: ClassVar[dict[str, int]] = {}

        def count_tokens(self, text: str) -> int:
            counted = len(vocabulary.tokenize(text.encode(), add_bos=False))
            return min(counted, self.made.get(text, counted))

        async def generate(self, request: LLMRequest) -> LLMResult:
            result = await super().generate(request)
            self.made[result.text] = result.tokens_out
            return result

    check_llm_backend(lambda: Exact("tiny", base_url=url, context_tokens=2048))
    vocabulary.close()


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_pieces_make_the_answer_and_a_long_prompt_is_refused(url: str, api: str) -> None:
    async def work() -> None:
        model = make(url, api=api)
        request = LLMRequest("Name the days of the week.", 16, seed=3)
        whole = await model.generate(request)
        pieces = [chunk async for chunk in model.stream(request)]
        assert "".join(piece.text for piece in pieces) == whole.text
        assert pieces[-1].result is not None and pieces[-1].result.status == whole.status == LLMStatus.LENGTH
        assert whole.tokens_out == 16 == pieces[-1].result.tokens_out
        with pytest.raises(BackendError) as caught:
            await model.generate(LLMRequest("word " * 3000, 16))
        assert caught.value.kind is Failure.CONTEXT_EXCEEDED
        await model.close()

    asyncio.run(work())
