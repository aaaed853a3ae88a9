"""The hf backend with a real transformers model on the processor."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from apex_cuda.backend import hf_backend
from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import LLMRequest, LLMStatus
from apex_framework.testing.llm import check_llm_backend

pytestmark = pytest.mark.slow


@pytest.mark.timeout(400)
def test_the_kit_passes(tiny_transformers: Path) -> None:
    check_llm_backend(lambda: hf_backend(str(tiny_transformers)), timeout_s=100)


def test_a_real_model_answers_counts_repeats_stops_and_survives_kill_9(tiny_transformers: Path) -> None:
    async def main() -> None:
        backend = hf_backend(model=tiny_transformers)
        request = LLMRequest("What is a queue?", 40, system="Be brief.", seed=5)
        first = await backend.generate(request)
        assert first.status is LLMStatus.LENGTH and first.tokens_out == 40 and first.text.isascii()
        assert first.tokens_in == backend.count_request(request) > backend.count_tokens("Be brief.What is a queue?")
        await backend.generate(LLMRequest("Something else entirely.", 20))
        assert await backend.generate(request) == first, "greedy decoding on a processor repeats"

        warm = LLMRequest("What is a queue?", 12, temperature=1.0, top_p=0.9, seed=1)
        again, other = (
            await backend.generate(warm),
            await backend.generate(LLMRequest("What is a queue?", 12, temperature=1.0, top_p=0.9, seed=2)),
        )
        assert again == await backend.generate(warm) and again.text != other.text, "a seed decides what chance does"

        word = first.text[10:13]
        cut = await backend.generate(LLMRequest("What is a queue?", 40, system="Be brief.", seed=5, stop=(word,)))
        assert cut.text == first.text[: first.text.index(word)] and cut.tokens_out < 40

        chunks = [chunk async for chunk in backend.stream(request)]
        assert "".join(c.text for c in chunks) == first.text and len(chunks) > 1

        (pid,) = backend.processes
        call = asyncio.ensure_future(backend.generate(LLMRequest("long", 8000)))
        await asyncio.sleep(0.5)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(BackendError) as caught:
            await call
        assert caught.value.kind is Failure.WORKER_DIED
        assert await backend.generate(request) == first

        with pytest.raises(BackendError, match="the context 8,192") as caught:
            await backend.generate(LLMRequest("word " * 20_000, 5))
        assert caught.value.kind is Failure.CONTEXT_EXCEEDED
        assert (await backend.health()).ok
        who = await backend.identity()
        assert who.model_digest.startswith("sha256:") and who.tokenizer_digest != who.model_digest
        assert who.context_tokens == 8192 and who.server.startswith("transformers ")
        await backend.close()

    asyncio.run(main())
