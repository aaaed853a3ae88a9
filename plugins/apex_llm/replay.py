"""The replay backend: yesterday's answers at no cost, the same every time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from apex_framework.errors import BackendError, ConfigError, Failure, ModelError
from apex_framework.interfaces import Finding, Grade, LLMBackend, LLMCapabilities, LLMRequest, LLMResult, Needs

from .cassette import Cassette, call_hash, has_secret, text_hash

_log = logging.getLogger(__name__)


class ReplayBackend:
    """Answers from the cassette at ``path``.

    With ``inner``, another backend, it records: what the cassette lacks is asked of ``inner`` and kept, token counts
    included. Without it a miss raises BackendError naming file and hash. Answers that hold something like a
    credential are passed on but not kept; prompts are never kept. One that records takes as long as ``inner`` takes;
    one that replays is deterministic and declares the recorded latency. Raises ConfigError without a path and
    ModelError for a cassette that is missing, unreadable or another model's.
    """

    def __init__(self, path: str | Path = "", *, inner: LLMBackend | None = None) -> None:
        if not str(path):
            raise ConfigError("replay needs a cassette", "give the option path")
        self._cassette = Cassette(Path(path))
        self._inner = inner
        if inner is not None:
            self._capabilities = inner.capabilities
            self._cassette.start(inner.capabilities)
        elif self._cassette.header is None:
            raise ModelError(f"no cassette at {path}", "record one by giving the option inner")
        else:
            self._capabilities = self._cassette.header

    @property
    def capabilities(self) -> LLMCapabilities:
        """The recorded model's; deterministic when nothing is recorded."""
        return self._capabilities

    def count_tokens(self, text: str) -> int:
        """The recorded count, by the model's own tokenizer. Raises BackendError for a text never counted before."""
        key = text_hash(text)
        if (tokens := self._cassette.counts.get(key)) is not None:
            return tokens
        if self._inner is None:
            cause = f"{self._cassette.path}: no token count {key}"
            raise BackendError(cause, "record it with the option inner", kind=Failure.NOT_RECORDED)
        tokens = self._inner.count_tokens(text)
        self._cassette.add_count(key, tokens)
        return tokens

    async def generate(self, request: LLMRequest) -> LLMResult:
        """The recorded answer, or a new one that is kept."""
        key = call_hash(self._capabilities.model_id, request)
        if (recorded := self._cassette.calls.get(key)) is not None:
            return recorded
        if self._inner is None:
            cause = f"{self._cassette.path}: no answer {key}"
            raise BackendError(cause, "record it with the option inner", kind=Failure.NOT_RECORDED)
        loop = asyncio.get_running_loop()
        started = loop.time()
        result = await self._inner.generate(request)
        if not result.latency_ms and not self._capabilities.deterministic:
            result = replace(result, latency_ms=(loop.time() - started) * 1000)
        if has_secret(result.text) or has_secret(result.error):
            _log.warning("answer %s holds something like a credential and is not kept", key)
            return result
        self._cassette.add_call(key, result)
        await self._write()
        return result

    async def examine(self, needs: Needs) -> Sequence[Finding]:
        """Whose answers the cassette holds, and how many."""
        answers, counts = len(self._cassette.calls), len(self._cassette.counts)
        shown = (
            f"{self._cassette.path}: {answers:,} answers and {counts:,} token counts of {self._capabilities.model_id}"
        )
        if answers or self._inner is not None:
            return [Finding("cassette", Grade.OK, shown)]
        return [Finding("cassette", Grade.FAIL, shown, "record one by giving the option inner")]

    async def close(self) -> None:
        """Write what is left and close ``inner``."""
        if self._inner is not None:
            try:
                await self._write()
            finally:
                await self._inner.close()

    async def _write(self) -> None:
        if self._capabilities.deterministic:
            self._cassette.flush()  # runs on virtual time, where there are no threads and waiting costs nothing
            return
        try:
            writing = asyncio.get_running_loop().run_in_executor(None, self._cassette.flush)
        except RuntimeError:  # the interpreter ends, and there are no threads to be had any more
            self._cassette.flush()
        else:
            await writing
