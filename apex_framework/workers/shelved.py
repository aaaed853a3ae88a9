"""A backend whose model is loaded when it is needed and there is room."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from ..events import Event
from ..interfaces.llm import Chunk, Health, LLMBackend, LLMCapabilities, LLMRequest, LLMResult, ModelIdentity
from .backend import WorkerBackend
from .rotation import Shelf


def shelved(shelf: Shelf | None, name: str, backend: LLMBackend) -> LLMBackend:
    """The backend, put on the shelf if there is one and if its model is loaded here; a server sees to its own models.

    Where the name is taken, by the same model with other options, it gets a number. Raises ModelError for a model that can
    never fit.
    """
    if shelf is None or not isinstance(backend, WorkerBackend):
        return backend
    same = sum(taken == name or taken.startswith(f"{name}#") for taken in shelf.names)
    return ShelvedBackend(shelf, f"{name}#{same + 1}" if same else name, backend)


class ShelvedBackend:
    """A WorkerBackend whose calls take turns on a shelf with those of other models. Counting tokens takes none."""

    def __init__(self, shelf: Shelf, name: str, backend: WorkerBackend) -> None:
        """Raises ConfigError for a name that is taken, ModelError for a model that can never fit."""
        shelf.add(name, backend, backend.memory_bytes)
        self._shelf, self._name, self._backend = shelf, name, backend

    @property
    def capabilities(self) -> LLMCapabilities:
        """The model's."""
        return self._backend.capabilities

    @property
    def processes(self) -> tuple[int, ...]:
        """Process ids of the instances that live now."""
        return self._backend.processes

    def count_tokens(self, text: str) -> int:
        """Exactly; the model need not be loaded."""
        return self._backend.count_tokens(text)

    def count_request(self, request: LLMRequest) -> int:
        """What the model will report as its prompt."""
        return self._backend.count_request(request)

    async def count_batch(self, texts: Sequence[str]) -> Sequence[int]:
        """The same without waiting on the loop."""
        return await self._backend.count_batch(texts)

    async def count_ahead(self, request: LLMRequest, *texts: str) -> None:
        """Have these counts in memory."""
        await self._backend.count_ahead(request, *texts)

    async def generate(self, request: LLMRequest) -> LLMResult:
        """The whole answer, when it is the model's turn."""
        async with self._shelf.use(self._name):
            return await self._backend.generate(request)

    def stream(self, request: LLMRequest) -> AsyncIterator[Chunk]:
        """Pieces of the answer, when it is the model's turn; closing the iterator cancels the call."""
        return self._stream(request)

    async def _stream(self, request: LLMRequest) -> AsyncGenerator[Chunk, None]:
        async with self._shelf.use(self._name), contextlib.aclosing(self._backend._stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def warm(self) -> None:
        """Load it, when it is the model's turn; another one's turn may unload it again."""
        async with self._shelf.use(self._name):
            pass

    async def unload(self) -> None:
        """End its instances; it keeps its place until another model needs it."""
        await self._backend.unload()

    async def health(self) -> Health:
        """How the model is; loads nothing."""
        return await self._backend.health()

    async def identity(self) -> ModelIdentity:
        """Digests of its files."""
        return await self._backend.identity()

    def drain_events(self) -> Sequence[Event]:
        """What happened to this model, and on the shelf."""
        return [*self._shelf.drain_events(), *self._backend.drain_events()]

    async def close(self) -> None:
        """End every process, and leave the place on the shelf. Idempotent; used again, it starts anew."""
        await self._backend.close()
        self._shelf.release(self._name)
