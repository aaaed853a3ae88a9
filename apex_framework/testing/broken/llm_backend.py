"""One broken LLM backend per check of the kit: each fails exactly that one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

from ...errors import BackendError
from ...interfaces.llm import (
    Chunk,
    Health,
    LLMBackend,
    LLMCapabilities,
    LLMRequest,
    LLMResult,
    ModelIdentity,
    Tokenizer,
)
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
        for _ in range(5):
            await asyncio.sleep(0)
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


class Deaf(Sound):
    """A call does not notice that the backend is closed."""

    def __init__(self) -> None:
        super().__init__()
        self._closed = False

    async def generate(self, request: LLMRequest) -> LLMResult:
        """The right answer, unless the backend is closed meanwhile."""
        await asyncio.sleep(0.02)
        if self._closed:
            await asyncio.sleep(3_600)
        return await super().generate(request)

    async def close(self) -> None:
        """Tells nobody."""
        self._closed = True


class Clinging(Sound):
    """Stays busy when a call is ended in its middle."""

    def __init__(self) -> None:
        super().__init__()
        self._busy = False

    async def generate(self, request: LLMRequest) -> LLMResult:
        """Refuses a second call at a time, also when the first is gone."""
        if self._busy:
            raise BackendError("busy")
        await asyncio.sleep(0.005)
        self._busy = True
        await asyncio.sleep(0.02)
        self._busy = False
        return await super().generate(request)


class Cutting(Sound):
    """Answers prompts beyond its context."""

    @property
    def capabilities(self) -> LLMCapabilities:
        """A model with a small context."""
        return replace(super().capabilities, context_tokens=2_000, is_llm=True)


class Able(Sound):
    """A sound backend with every optional ability."""

    async def stream(self, request: LLMRequest) -> AsyncIterator[Chunk]:
        """The answer line by line."""
        result = await self.generate(request)
        for line in result.text.splitlines(keepends=True):
            yield Chunk(line)
        yield Chunk("", result)

    def count_request(self, request: LLMRequest) -> int:
        """All that the model sees."""
        return rule_of_four(request.system + request.prompt)

    async def count_batch(self, texts: Sequence[str]) -> Sequence[int]:
        """As a server would."""
        return [self.count_tokens(text) for text in texts]

    def load_tokenizer(self) -> Tokenizer:
        """One that counts the same."""
        return RuleOfFour()

    async def health(self) -> Health:
        """Well."""
        return Health(ok=True)

    async def identity(self) -> ModelIdentity:
        """Itself."""
        return ModelIdentity("sound", context_tokens=self.capabilities.context_tokens)

    async def warm(self) -> None:
        """Nothing to load."""


class RuleOfFour:
    """A tokenizer."""

    def count(self, text: str) -> int:
        """Tokens by the rule."""
        return rule_of_four(text)


class Stammering(Able):
    """Says its first line twice."""

    async def stream(self, request: LLMRequest) -> AsyncIterator[Chunk]:
        """More than the answer."""
        result = await self.generate(request)
        yield Chunk(result.text[:4])
        yield Chunk(result.text, result)


class Grudging(Able):
    """Answers no more once a stream was left early."""

    def __init__(self) -> None:
        super().__init__()
        self._left = False

    async def stream(self, request: LLMRequest) -> AsyncIterator[Chunk]:
        """The answer; notices who leaves."""
        whole = False
        try:
            async for chunk in super().stream(request):
                yield chunk
            whole = True
        finally:
            self._left = not whole

    async def generate(self, request: LLMRequest) -> LLMResult:
        """An answer to those who listened."""
        if self._left:
            raise BackendError("nobody listens")
        return await super().generate(request)


class Untemplated(Able):
    """Forgets the system prompt and what surrounds it when it counts."""

    def count_request(self, request: LLMRequest) -> int:
        """Too few."""
        return rule_of_four(request.prompt) * 9 // 10 - 5


class Foreign(Able):
    """Its server counts by another model's tokenizer."""

    async def count_batch(self, texts: Sequence[str]) -> Sequence[int]:
        """Twice as many."""
        return [2 * count for count in await super().count_batch(texts)]


class Pessimist(Able):
    """Answers, and says that it cannot."""

    async def health(self) -> Health:
        """Not well."""
        return Health(ok=False, detail="who knows")


class Forgetful(Able):
    """Is another model after a call."""

    async def identity(self) -> ModelIdentity:
        """A digest of its own for every call."""
        return ModelIdentity("sound", model_digest=f"sha256:{len(self.requests)}")


class Nervous(Able):
    """Cannot be warmed up twice."""

    def __init__(self) -> None:
        super().__init__()
        self._warm = False

    async def warm(self) -> None:
        """Fails the second time."""
        if self._warm:
            raise RuntimeError("warm already")
        self._warm = True


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
    "close_ends_calls": Deaf,
    "timeouts_release": Clinging,
    "no_prompt_is_cut": Cutting,
    "streams_whole_answers": Stammering,
    "streams_can_be_left": Grudging,
    "requests_are_counted_whole": Untemplated,
    "tokenizers_agree": Foreign,
    "health_is_told": Pessimist,
    "identity_is_constant": Forgetful,
    "warming_can_be_repeated": Nervous,
}
"""Check -> a backend that fails it and no other."""
