"""One broken LLM backend per check of the kit: each fails exactly that one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...errors import BackendError
from ...interfaces.llm import LLMBackend, LLMCapabilities, LLMRequest, LLMResult
from ..scripted import ScriptedBackend, rule_of_four

DAYS = "Monday\nTuesday\nWednesday\nThursday\nFriday\nSaturday\nSunday"


class Sound(ScriptedBackend):
    """A backend with nothing wrong: always the days of the week."""

    def __init__(self) -> None:
        super().__init__(DAYS, model_id="sound")


class Moody(Sound):
    """Its context window shrinks with use."""

    @property
    def capabilities(self) -> LLMCapabilities:
        """Less after a call."""
        return replace(super().capabilities, context_tokens=100_000 - len(self.requests))


class Learning(Sound):
    """Counts shorter texts differently after a call."""

    def count_tokens(self, text: str) -> int:
        """One less for long texts once it has been used."""
        return rule_of_four(text) - (1 if self.requests and len(text) == 1_000 else 0)


class Lines(Sound):
    """Counts no text as more than a window of 100 tokens, as a truncating tokenizer does."""

    def count_tokens(self, text: str) -> int:
        """At most 100, for texts that are one line."""
        return rule_of_four(text) if "lorem" in text else min(100, rule_of_four(text))


class Untyped(Sound):
    """Says how a call ended in a plain text."""

    async def generate(self, request: LLMRequest) -> LLMResult:
        """The right answer with a status that is no LLMStatus."""
        result = await super().generate(request)
        status: Any = str(result.status)
        return replace(result, status=status)


class Negative(Sound):
    """Reports -1 where it knows no count."""

    async def generate(self, request: LLMRequest) -> LLMResult:
        """The right answer with the wrong usage."""
        return replace(await super().generate(request), tokens_out=-1)


class Frugal(Sound):
    """Reports a quarter of what long prompts take."""

    async def generate(self, request: LLMRequest) -> LLMResult:
        """The right answer with too small a bill."""
        result = await super().generate(request)
        return replace(result, tokens_in=max(1, result.tokens_in // 4))


class Verbose(Sound):
    """Does not stop at max_tokens."""

    async def generate(self, request: LLMRequest) -> LLMResult:
        """The whole answer, whatever was allowed."""
        return await super().generate(replace(request, max_tokens=1_000))


class Restless(Sound):
    """Calls itself deterministic and is not."""

    async def generate(self, request: LLMRequest) -> LLMResult:
        """An answer with the number of the call."""
        result = await super().generate(request)
        return replace(result, latency_ms=float(len(self.requests)))


class Stuck(Sound):
    """Stays busy when a call is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self._busy = False

    async def generate(self, request: LLMRequest) -> LLMResult:
        """Refuses a second call at a time, also when the first is gone."""
        if self._busy:
            raise BackendError("busy")
        self._busy = True
        await asyncio.sleep(0.001)
        self._busy = False
        return await super().generate(request)


class Fragile(Sound):
    """Cannot be closed twice."""

    def __init__(self) -> None:
        super().__init__()
        self._held: Any = object()

    async def close(self) -> None:
        """Fails the second time."""
        if self._held is None:
            raise RuntimeError("closed already")
        self._held = None


BROKEN: dict[str, Callable[[], LLMBackend]] = {
    "capabilities_are_constant": Moody,
    "counts_are_pure": Learning,
    "counts_grow_with_text": Lines,
    "answers_with_a_result": Untyped,
    "usage_is_whole_numbers": Negative,
    "usage_agrees_with_counts": Frugal,
    "max_tokens_is_respected": Verbose,
    "same_request_same_answer": Restless,
    "cancellation_releases": Stuck,
    "close_is_idempotent": Fragile,
}
"""Check -> a backend that fails it and no other."""
