"""The backend that every engine gets: calls, streams, counts, health and identity over a fleet of processes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ..errors import BackendError, Failure
from ..events import Event as Told
from ..interfaces.llm import Chunk, Health, LLMCapabilities, LLMRequest, LLMResult, LLMStatus, ModelIdentity
from .bridge import Bridge
from .counting import Countable, CountCache
from .fleet import Fleet, FleetSettings, Instance
from .memory import described, limits_from
from .process import Event

MOST_EVENTS: Final = 1000
"""Events kept for who asks for them."""
COUNT_S: Final = 30.0
"""Seconds that a count may take once the tokenizer is loaded."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a model without loading it."""

    model_id: str
    context_tokens: int
    name: str
    """What error messages call the processes."""
    identify: Callable[[], ModelIdentity]
    """Says exactly which model it is; may read all of it, is called in a thread, once."""
    check: Callable[[], None] = lambda: None
    """Called in a thread before the first process is started: raises ApexError when this machine cannot hold it."""
    memory_bytes: int = 0
    """What all its instances need together, estimated; 0 when that is not known."""


class WorkerBackend:
    """Answers from models in processes of their own; usable from one event loop after the other.

    ``LLMRequest.role`` decides the instance. One instance answers one call at a time, in the order in which they came.
    A call fails with WORKER_DIED when its process ends under it; the next one gets a new process, after the fourth
    death within a minute only later. Tokens are counted exactly, by a process that does nothing else; the first count
    waits until that has loaded, unless the backend was warmed. All methods raise BackendError on failure.

    While models are loaded, memory is watched (``MemoryCare``). A call under which its model is unloaded fails as UNLOADED;
    one that needs it again while there is no room as UNAVAILABLE: neither was charged, unless a part of an answer had come.
    """

    def __init__(self, model: ModelInfo, settings: FleetSettings) -> None:
        self._model = model
        self._settings = settings
        self._fleet: Fleet | None = None
        self._bridge = Bridge(f"apex-{model.name}")
        self._counts = CountCache()
        self._checked = False
        self._limits = settings.memory or limits_from()
        self._events: deque[Told] = deque(maxlen=MOST_EVENTS)
        self._identity: ModelIdentity | None = None
        self._capabilities = LLMCapabilities(
            model.model_id, model.context_tokens, deterministic=False, seeded=True, keeps_max_tokens=True
        )

    @property
    def capabilities(self) -> LLMCapabilities:
        """Temperature 0 gives the same answer again on the same machine; how long it takes is measured, not declared."""
        return self._capabilities

    @property
    def processes(self) -> tuple[int, ...]:
        """Process ids of the instances that live now, without that of the tokenizer."""
        return () if self._fleet is None else tuple(i.pid for i in self._fleet.instances if i.pid is not None)

    # --- counting ---------------------------------------------------------------------------------

    def count_tokens(self, text: str) -> int:
        """Exactly, from memory or by the tokenizer's process."""
        return self._count((text,))[0]

    def count_request(self, request: LLMRequest) -> int:
        """What the model will report as its prompt."""
        return self._count(((request.system, request.prompt),))[0]

    async def count_batch(self, texts: Sequence[str]) -> Sequence[int]:
        """The same without waiting on the loop; what was counted so is known to the other two."""
        return await self._count_ahead(tuple(texts))

    async def count_ahead(self, request: LLMRequest, *texts: str) -> None:
        """Have these counts in memory, so that nobody has to wait for them on the loop."""
        await self._count_ahead(((request.system, request.prompt), *texts))

    def _count(self, texts: Sequence[Countable]) -> list[int]:
        known = [self._counts.get(text) for text in texts]
        if None not in known:
            return [tokens for tokens in known if tokens is not None]
        future = self._bridge.run(self._ask_counts(texts))
        try:
            return future.result(self._settings.load_s + COUNT_S)
        except concurrent.futures.TimeoutError as error:
            future.cancel()
            raise BackendError("the tokenizer does not answer", kind=Failure.WORKER_DIED) from error

    async def _count_ahead(self, texts: Sequence[Countable]) -> list[int]:
        known = [self._counts.get(text) for text in texts]
        if None not in known:
            return [tokens for tokens in known if tokens is not None]
        return await asyncio.wrap_future(self._bridge.run(self._ask_counts(texts)))

    async def _ask_counts(self, texts: Sequence[Countable]) -> list[int]:
        tokenizer = self._alive().tokenizer
        await tokenizer.warm()
        frame = {"do": "count", "texts": [text if isinstance(text, str) else list(text) for text in texts]}
        try:
            async with asyncio.timeout(COUNT_S):
                event = await tokenizer.ask(frame, lambda event: None)
        except TimeoutError as error:  # the cancelled call has seen to it that the process is killed if it hangs
            raise BackendError(f"no token count after {COUNT_S:g} s", kind=Failure.WORKER_DIED) from error
        counts = [int(tokens) for tokens in event["counts"]]
        for text, tokens in zip(texts, counts, strict=True):
            self._counts.put(text, tokens)
        return counts

    # --- calls ------------------------------------------------------------------------------------

    async def generate(self, request: LLMRequest) -> LLMResult:
        """The whole answer."""
        result: LLMResult | None = None
        async with contextlib.aclosing(self._stream(request)) as chunks:
            async for chunk in chunks:
                result = chunk.result or result
        assert result is not None, "a stream ends with its result or an error"
        return result

    def stream(self, request: LLMRequest) -> AsyncIterator[Chunk]:
        """Pieces of the answer as the model makes them; closing the iterator cancels the call."""
        return self._stream(request)

    async def _stream(self, request: LLMRequest) -> AsyncGenerator[Chunk, None]:
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event | None] = asyncio.Queue()

        def hear(event: Event | None) -> None:
            with contextlib.suppress(RuntimeError):  # the caller's loop may be gone, and the caller with it
                loop.call_soon_threadsafe(events.put_nowait, event)

        future = self._bridge.run(self._run(request, hear))
        future.add_done_callback(lambda _: hear(None))
        parts: list[str] = []
        try:
            while (event := await events.get()) is not None:
                parts.append(str(event["text"]))
                yield Chunk(parts[-1])
            if future.cancelled():
                raise BackendError("the backend was closed", kind=Failure.CANCELLED)
            try:
                last = future.result()
            except BackendError as error:
                error.partial = "".join(parts)
                if error.partial:  # it cost something, whatever it is called
                    error.retryable = error.free = False
                raise
            yield Chunk("", self._result("".join(parts), last))
        finally:
            future.cancel()

    async def _run(self, request: LLMRequest, hear: Callable[[Event], None]) -> Event:
        fleet = self._alive()
        instance = fleet.instance(request.role)
        await self._check(fleet, instance)
        ask = {
            "system": request.system,
            "prompt": request.prompt,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request.seed & 0x7FFFFFFF,
            "stop": list(request.stop),
        }
        return await instance.ask({"do": "ask", "ask": ask}, hear)

    async def _check(self, fleet: Fleet, instance: Instance | None = None) -> None:
        """Raises what the model's check raises before it is first loaded, BackendError when memory is still short."""
        fleet.watch()
        if not self._checked:
            await asyncio.to_thread(self._model.check)
            self._checked = True
        if not fleet.ran_short or (instance is not None and instance.loaded):
            return
        now = await self._settings.read_memory()
        need = self._model.memory_bytes // (self._settings.instances if instance is not None else 1)
        if now is not None and now.available - need < self._limits.unload * now.total:
            cause = (
                f"the model was unloaded because memory was short, and there is no room for it yet: {described(now)}"
            )
            raise BackendError(cause, "end other programs, or take a smaller model", kind=Failure.UNAVAILABLE)

    def _result(self, text: str, event: Event) -> LLMResult:
        # A model may make a text of fewer tokens than its tokenizer would split it into: what it made is what it cost.
        self._counts.put(text, min(int(event["text_tokens"]), int(event["tokens_out"])))
        status = LLMStatus.LENGTH if event["cut"] else LLMStatus.OK
        return LLMResult(text, int(event["tokens_in"]), int(event["tokens_out"]), status)

    # --- life -------------------------------------------------------------------------------------

    async def warm(self) -> None:
        """Check memory and load every instance and the tokenizer."""
        await asyncio.wrap_future(self._bridge.run(self._warm()))

    async def _warm(self) -> None:
        fleet = self._alive()
        await self._check(fleet)
        try:
            await fleet.warm()
        except* BackendError as errors:
            raise errors.exceptions[0] from None  # the first says it all

    @property
    def memory_bytes(self) -> int:
        """What the model needs, estimated; 0 when that is not known."""
        return self._model.memory_bytes

    async def unload(self) -> None:
        """End the instances; calls under way fail as UNLOADED. What counts tokens stays, and the next call loads again."""
        if self._fleet is not None and self._bridge.running:
            await asyncio.wrap_future(self._bridge.run(self._fleet.unload()))

    def drain_events(self) -> Sequence[Told]:
        """Memory that ran short, and what was unloaded for it."""
        told = []
        with contextlib.suppress(IndexError):  # another thread adds to it
            while True:
                told.append(self._events.popleft())
        return told

    async def health(self) -> Health:
        """Whether the model is loaded, or could be; loads nothing."""
        try:
            await asyncio.to_thread(self._model.check)
        except Exception as error:  # noqa: BLE001 - what is wrong is the answer
            return Health(False, str(error))
        fleet = self._fleet
        if fleet is None:
            return Health(True, "not loaded yet")
        info = next((i.info for i in (*fleet.instances, fleet.tokenizer) if i.info), {})
        alive = len(self.processes)
        restarts = sum(max(0, i.starts - 1) for i in fleet.instances)
        detail = f"{alive} of {len(fleet.instances)} instances loaded" + (f", {restarts} restarts" if restarts else "")
        return Health(True, detail, str(info.get("version", "")))

    async def identity(self) -> ModelIdentity:
        """Digests of the files themselves; reading them takes a while the first time."""
        if self._identity is None:
            self._identity = await asyncio.to_thread(self._model.identify)
        return self._identity

    async def close(self) -> None:
        """End every process; calls under way fail as cancelled. Idempotent; used again, it starts anew."""
        fleet, self._fleet = self._fleet, None
        if fleet is not None and self._bridge.running:
            await asyncio.wrap_future(self._bridge.run(fleet.close()))
        self._bridge.stop()

    def _alive(self) -> Fleet:
        if self._fleet is None:
            self._fleet = Fleet(
                self._model.name, self._settings, self._limits, self._model.model_id, self._events.append
            )
        return self._fleet
