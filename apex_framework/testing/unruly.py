"""A model backend that misbehaves in a named way: for tests of whatever calls models, ours and yours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from ..errors import BackendError, Failure
from ..interfaces.llm import Chunk, LLMCapabilities, LLMRequest, LLMResult, LLMStatus
from .scripted import cut, rule_of_four

TEXT: Final = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"

MISBEHAVIOURS: Mapping[str, str] = MappingProxyType(
    {
        "refuses": "no connection",
        "wrong_key": "401",
        "no_model": "404",
        "busy": "429 with Retry-After in seconds",
        "busy_until": "429 with Retry-After as a date in the past",
        "busy_for_ever": "429 with an absurd Retry-After",
        "busy_nonsense": "429 with a Retry-After that is no time",
        "fails": "500",
        "overloaded": "503",
        "prompt_too_long": "the server refuses the prompt",
        "unloaded": "the model is unloaded before it answered anything",
        "dies": "the process that had the request is gone",
        "unreadable": "an answer that is no JSON",
        "never_answers": "nothing ever comes",
        "ignores_cancellation": "goes on when it is cancelled",
        "ignores_everything": "goes on whatever is thrown into it, fifty times",
        "tidies_up_for_ever": "a finally that never ends",
        "answers_when_cancelled": "the answer comes after the cancellation",
        "fails_when_cancelled": "turns the cancellation into an error of its own",
        "limits_itself": "has a shorter time limit of its own, and raises TimeoutError",
        "spins": "is awake all the time and never done",
        "answers_nothing": "None",
        "answers_at_once": "a result where an awaitable belongs",
        "no_usage": "usage is missing",
        "credits": "usage is negative",
        "understates": "usage is a tenth of the truth",
        "overstates": "usage is twice what was allowed",
        "absurd_usage": "usage is a number with a hundred digits",
        "says_too_much": "does not stop at max_tokens",
        "exits": "raises SystemExit",
        "bug": "raises KeyError",
        # of streams; ``generate`` of these is sound, or where that cannot be, never answers
        "no_first_token": "a stream that is opened, and silent",
        "keeps_alive": "a stream of nothing but keep-alives",
        "stalls": "silent after three pieces",
        "drips": "a piece every half second, for ever, of no token each",
        "no_result": "the stream ends without a result",
        "breaks_off": "the connection ends after three pieces",
        "retryable_too_late": "says that nothing was charged, after three pieces",
        "garbage": "pieces of another type",
        "bad_result": "a result of another type",
        "endless": "tokens without end",
        "endless_nothing": "empty pieces without end and without a pause",
        "never_closes": "the stream is whole, and closing it never ends",
        "no_stream": "a list where a stream belongs",
        "says_more_than_it_says": "a result that holds less than the pieces did",
    }
)
"""Name -> what it does."""

STREAMED: Final = frozenset(list(MISBEHAVIOURS)[list(MISBEHAVIOURS).index("no_first_token") :])
"""Those that only a stream shows."""

HOUR: Final = 3_600.0


class UnrulyBackend:
    """Misbehaves as ``how`` says, in its first ``times`` calls or in all; then it answers ``TEXT``, in pieces if streamed.

    ``requests`` is what it was asked, ``open`` the calls that have begun and not ended. Raises KeyError for no misbehaviour.
    """

    def __init__(self, how: str, *, times: int | None = None, takes_s: float = 0.01) -> None:
        if how:
            MISBEHAVIOURS[how]
        self.requests: list[LLMRequest] = []
        self.open = 0
        self._how, self._times, self._takes_s = how, times, takes_s
        self._capabilities = LLMCapabilities("unruly", 1_000_000, deterministic=False, is_llm=False)

    @property
    def capabilities(self) -> LLMCapabilities:
        """What it is."""
        return self._capabilities

    def count_tokens(self, text: str) -> int:
        """Tokens by ``rule_of_four``."""
        return rule_of_four(text)

    def generate(self, request: LLMRequest) -> Coroutine[Any, Any, LLMResult]:
        """Answer, or not."""
        how = self._next(request)
        if how == "answers_at_once":
            at_once: Any = self._sound(request)
            return at_once  # type: ignore[no-any-return]  # that is what is wrong with it
        return self._generate(request, how)

    def stream(self, request: LLMRequest) -> AsyncIterator[Chunk]:
        """Answer in pieces, or not."""
        how = self._next(request)
        if how == "no_stream":
            pieces: Any = [Chunk(TEXT)]
            return pieces  # type: ignore[no-any-return]  # that is what is wrong with it
        return self._stream(request, how)

    async def close(self) -> None:
        """Nothing to release."""

    def _next(self, request: LLMRequest) -> str:
        self.requests.append(request)
        return self._how if self._times is None or len(self.requests) <= self._times else ""

    def _sound(self, request: LLMRequest) -> LLMResult:
        text = cut(TEXT, request.max_tokens)
        status = LLMStatus.OK if text == TEXT else LLMStatus.LENGTH
        return LLMResult(text, rule_of_four(request.system + request.prompt), rule_of_four(text), status)

    async def _generate(self, request: LLMRequest, how: str) -> LLMResult:
        self.open += 1
        try:
            await asyncio.sleep(self._takes_s)
            if how in _RAISED:
                raise _RAISED[how]()
            if how in _STUCK:
                await _STUCK[how]()
            if how == "answers_nothing":
                nothing: Any = None
                return nothing  # type: ignore[no-any-return]  # that is what is wrong with it
            result = self._sound(request)
            return _LIES[how](result, request) if how in _LIES else result
        finally:
            self.open -= 1

    async def _stream(self, request: LLMRequest, how: str) -> AsyncIterator[Chunk]:
        self.open += 1
        try:
            if how not in STREAMED:
                result = await self._generate(request, how)
                for piece in _pieces(result.text if result is not None else ""):
                    yield Chunk(piece)
                yield Chunk("", result)
                return
            await asyncio.sleep(self._takes_s)
            async for chunk in self._odd(request, how):
                yield chunk
        finally:
            self.open -= 1
            if how == "never_closes":
                await asyncio.sleep(HOUR)

    async def _odd(self, request: LLMRequest, how: str) -> AsyncIterator[Chunk]:
        result = self._sound(request)
        if how == "no_first_token":
            await asyncio.sleep(HOUR)
        while how == "keeps_alive":
            await asyncio.sleep(0.1)
            yield Chunk("")
        while how == "endless_nothing":
            yield Chunk("")
        while how == "endless":
            yield Chunk("more ")
        while how == "drips":
            await asyncio.sleep(0.5)
            yield Chunk("\u200b")
        pieces = _pieces(result.text)
        for number, piece in enumerate(pieces):
            await asyncio.sleep(self._takes_s)
            if number == 3:
                await self._third(how)
            odd: Any = piece if how == "garbage" and number == 2 else Chunk(piece)
            yield odd
        if how == "no_result":
            return
        if how == "says_more_than_it_says":
            result = replace(result, text=result.text[:4], tokens_out=1)
        wrong: Any = "done" if how == "bad_result" else result
        yield Chunk("", wrong)

    async def _third(self, how: str) -> None:
        if how == "stalls":
            await asyncio.sleep(HOUR)
        if how == "breaks_off":
            raise BackendError("the connection ended", kind=Failure.TRUNCATED)
        if how == "retryable_too_late":
            raise BackendError("busy", kind=Failure.UNAVAILABLE)


def _pieces(text: str) -> list[str]:
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:]


async def _ignoring(what: type[BaseException], times: int) -> None:
    for _ in range(times):
        try:
            return await asyncio.sleep(HOUR)
        except what:
            continue


async def _tidying() -> None:
    try:
        await asyncio.sleep(HOUR)
    finally:
        await asyncio.sleep(HOUR)


async def _answering() -> None:
    try:
        await asyncio.sleep(HOUR)
    except asyncio.CancelledError:
        await asyncio.sleep(0.01)


async def _failing() -> None:
    try:
        await asyncio.sleep(HOUR)
    except asyncio.CancelledError:
        raise BackendError("the request was aborted", kind=Failure.UNAVAILABLE) from None


async def _limited() -> None:
    async with asyncio.timeout(0.2):
        await asyncio.sleep(HOUR)


async def _spinning() -> None:
    while True:  # noqa: ASYNC110 - being awake is the point
        await asyncio.sleep(0.001)


_STUCK: Final[Mapping[str, Callable[[], Awaitable[None]]]] = {
    "never_answers": lambda: asyncio.sleep(HOUR),
    "ignores_cancellation": lambda: _ignoring(asyncio.CancelledError, 1_000),
    "ignores_everything": lambda: _ignoring(BaseException, 50),
    "tidies_up_for_ever": _tidying,
    "answers_when_cancelled": _answering,
    "fails_when_cancelled": _failing,
    "limits_itself": _limited,
    "spins": _spinning,
}

_RAISED: Final[Mapping[str, Callable[[], BaseException]]] = {
    "refuses": lambda: BackendError("connection refused", kind=Failure.CONNECT),
    "wrong_key": lambda: BackendError("401", kind=Failure.AUTH),
    "no_model": lambda: BackendError("404", kind=Failure.NOT_FOUND),
    "busy": lambda: BackendError("429", kind=Failure.RATE_LIMITED, retry_after="1"),
    "busy_until": lambda: BackendError("429", kind=Failure.RATE_LIMITED, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
    "busy_for_ever": lambda: BackendError("429", kind=Failure.RATE_LIMITED, retry_after="9" * 400),
    "busy_nonsense": lambda: BackendError("429", kind=Failure.RATE_LIMITED, retry_after="soon"),
    "fails": lambda: BackendError("500", kind=Failure.SERVER),
    "overloaded": lambda: BackendError("503", kind=Failure.UNAVAILABLE),
    "prompt_too_long": lambda: BackendError("400", kind=Failure.CONTEXT_EXCEEDED),
    "unloaded": lambda: BackendError("the model is gone", kind=Failure.UNLOADED),
    "dies": lambda: BackendError("the worker is gone", kind=Failure.WORKER_DIED),
    "unreadable": lambda: BackendError("no JSON", kind=Failure.MALFORMED),
    "exits": lambda: SystemExit(1),
    "bug": lambda: KeyError("bug"),
}

_LIES: Final[Mapping[str, Callable[[LLMResult, LLMRequest], LLMResult]]] = {
    "no_usage": lambda result, _: replace(result, tokens_in=0, tokens_out=0),
    "credits": lambda result, _: replace(result, tokens_in=-result.tokens_in, tokens_out=-result.tokens_out),
    "understates": lambda result, _: replace(
        result, tokens_in=result.tokens_in // 10, tokens_out=result.tokens_out // 10
    ),
    "overstates": lambda result, request: replace(result, tokens_out=2 * request.max_tokens),
    "absurd_usage": lambda result, _: replace(result, tokens_in=10**100, tokens_out=10**100),
    "says_too_much": lambda result, request: replace(result, text="word " * request.max_tokens),
}
