"""Reading a backend's stream to its end under deadlines of its own, and passing the pieces on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self

from ..errors import BackendError, Failure
from ..interfaces.budget import Denied
from ..interfaces.llm import Chunk, LLMRequest, LLMResult, LLMStatus, Streams
from .bounded import GRACE_S, bounded
from .usage import ROUGH, Count

CLOSE_S: Final = 0.1
"""A stream that was read to its end, and no other, may take so long to close."""
EMPTY_MOST: Final = 10_000
"""More pieces without data in a row are no stream."""
TURN_EVERY: Final = 16
"""So often the loop gets a turn, also where a backend never gives it one."""

Sink = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Stages:
    """Deadlines within a streamed call, in seconds: until the first data, and between two pieces of data."""

    first_token_s: float | None = None
    idle_s: float | None = None

    def __bool__(self) -> bool:
        return self.first_token_s is not None or self.idle_s is not None


@dataclass(slots=True)
class Reader:
    """One streamed answer: ``text`` is what has come so far, which may be more than was passed on."""

    request: LLMRequest
    stages: Stages
    count: Count
    exact: bool
    sink: Sink | None = None
    kept: bool = False
    """The model keeps to max_tokens by itself."""
    text: str = ""
    cut: bool = False
    """The model did not stop at max_tokens, so we did."""
    _spent: int = 0

    async def read(self, backend: Streams, limit: asyncio.Timeout) -> LLMResult:
        """The answer. ``limit`` is the call's deadline, lifted when the answer is there.

        Raises BackendError: FIRST_TOKEN_TIMEOUT, IDLE_TIMEOUT, INCOMPLETE for an end without a result, MALFORMED for what
        is no stream of chunks; and what the stream raises, no longer retryable once data has come.
        """
        stream: object = backend.stream(self.request)
        if not isinstance(stream, AsyncIterator):
            raise BackendError(f"stream answered {type(stream).__name__}", kind=Failure.MALFORMED)
        result = None
        try:
            result = await self._result(stream)
        except BackendError as error:
            if self.text and error.retryable:
                raise BackendError(error.cause, error.remedy, retryable=False, kind=Failure.TRUNCATED) from error
            raise
        finally:
            if result is not None:
                limit.reschedule(None)
            await self._close(stream, CLOSE_S if result is not None else 0.0)
        return result

    async def _result(self, stream: AsyncIterator[Chunk]) -> LLMResult:
        loop, idle_s = asyncio.get_running_loop(), self.stages.idle_s
        kind, empty, pieces = Failure.FIRST_TOKEN_TIMEOUT, 0, 0
        stage = asyncio.timeout(self.stages.first_token_s)
        try:
            async with stage:
                while empty <= EMPTY_MOST:
                    try:
                        chunk: object = await bounded(anext(stream))
                    except StopAsyncIteration:
                        raise BackendError("the stream ended without a result", kind=Failure.INCOMPLETE) from None
                    if not isinstance(chunk, Chunk) or not isinstance(chunk.text, str):
                        raise BackendError(f"a stream of {type(chunk).__name__}", kind=Failure.MALFORMED)
                    pieces += 1
                    if pieces % TURN_EVERY == 0:
                        await asyncio.sleep(0)
                    if chunk.text:
                        kind, empty = Failure.IDLE_TIMEOUT, 0
                        stage.reschedule(None if idle_s is None else loop.time() + idle_s)
                        if (kept := self._take(chunk.text)) is not None:
                            return kept
                    if chunk.result is not None:
                        return self._checked(chunk.result)
                    empty += not chunk.text
                raise BackendError(f"{empty} pieces without data", kind=Failure.MALFORMED)
        except TimeoutError as error:
            if not stage.expired():
                raise
            what = "no first token" if kind is Failure.FIRST_TOKEN_TIMEOUT else "no more data"
            allowed = self.stages.first_token_s if kind is Failure.FIRST_TOKEN_TIMEOUT else idle_s
            raise BackendError(f"{what} within {allowed:g} s", kind=kind) from error

    def _take(self, piece: str) -> LLMResult | None:
        """Keep a piece and pass it on; the result when it is one too many."""
        kept, self.text = self.text, self.text + piece
        most = self.request.max_tokens if self.exact else int(self.request.max_tokens * (1 + ROUGH)) + 1
        self._spent += self.count(piece)  # pieces apart are hardly ever fewer tokens than together
        if self._spent > most:
            self._spent = self.count(self.text)
        if self._spent > most and not self.kept:
            self.cut = True
            return LLMResult(kept, -1, -1, LLMStatus.LENGTH)
        if self.sink is not None:
            self.sink(piece)
        return None

    def _checked(self, result: object) -> LLMResult:
        if not isinstance(result, LLMResult) or not isinstance(result.text, str):
            raise BackendError(f"a stream's result is {type(result).__name__}", kind=Failure.MALFORMED)
        return result if result.text or not self.text else replace(result, text=self.text)

    async def _close(self, stream: AsyncIterator[Chunk], seconds: float) -> None:
        aclose = getattr(stream, "aclose", None)
        if aclose is None:
            return
        try:
            async with asyncio.timeout(seconds):
                await bounded(aclose())
        except Exception:  # noqa: BLE001 - a plugin's edge: the answer, or the failure, is known already
            pass


class Stream:
    """The pieces of an answer as they come: ``async for chunk in stream``. The last chunk carries the result.

    The call goes on at its own pace and ends within its deadline, read or not; ``aclose``, or leaving ``async with``,
    cancels it. A denied call has no pieces. ``answer`` is what ``generate`` would have answered.
    """

    def __init__(self, begin: Callable[[Sink], asyncio.Task[LLMResult | Denied]]) -> None:
        self._pieces: deque[str] = deque()
        self._news = asyncio.Event()
        self._told = False
        self._task = begin(self._put)
        self._task.add_done_callback(lambda _: self._news.set())

    def _put(self, piece: str) -> None:
        self._pieces.append(piece)
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        """The next piece."""
        while not self._pieces and not self._task.done():
            self._news.clear()
            await self._news.wait()
        if self._pieces:
            return Chunk(self._pieces.popleft())
        answer = self._result()
        if self._told or isinstance(answer, Denied):
            raise StopAsyncIteration
        self._told = True
        return Chunk("", answer)

    def _result(self) -> LLMResult | Denied:
        if self._task.cancelled():
            return LLMResult("", 0, 0, LLMStatus.CANCELLED, "the stream was closed", failure=Failure.CANCELLED)
        return self._task.result()

    async def answer(self) -> LLMResult | Denied:
        """The whole answer, when it is there."""
        await asyncio.wait({self._task})
        return self._result()

    async def aclose(self) -> None:
        """End the call if it has not ended; idempotent."""
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=3 * GRACE_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
