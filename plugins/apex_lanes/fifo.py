"""First in, first out, whatever the priority; full is full."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator

from apex_framework.interfaces import Message, RouteResult

_ENQUEUED = RouteResult.ENQUEUED
_FULL = RouteResult.FULL


class FifoLane:
    """A bounded queue."""

    __slots__ = ("_capacity", "_waiting")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._waiting: deque[Message] = deque()

    def offer(self, message: Message) -> RouteResult:
        """Admit, or refuse as FULL."""
        waiting = self._waiting
        if len(waiting) >= self._capacity:
            return _FULL
        waiting.append(message)
        return _ENQUEUED

    def restore(self, message: Message) -> None:
        """Append regardless of capacity."""
        self._waiting.append(message)

    def take(self) -> Message | None:
        """The oldest, or None."""
        return self._waiting.popleft() if self._waiting else None

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._waiting)


class Fifo:
    """Makes bounded queues."""

    name = "fifo"

    def lane(self, receiver: str, capacity: int, rng: random.Random) -> FifoLane:
        """An empty queue for ``capacity`` messages."""
        return FifoLane(capacity)
