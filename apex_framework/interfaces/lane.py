"""Lane: the queue in front of one receiver, and the order in which it serves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from .message import Message, RouteResult


@runtime_checkable
class Lane(Protocol):
    """One receiver's waiting messages of one epoch. Synchronous; called on the hot path.

    It decides who is admitted and who is served next. Messages of one sender and one priority keep their order;
    none waits for ever behind others. The router keeps its own account of what waits: a lane that raises, loses,
    invents or repeats a message is named in a PluginError, and a plain queue takes its place.
    """

    def offer(self, message: Message) -> RouteResult:
        """Admit a new message, whatever its priority, or refuse it: FULL or WRED. Refusing leaves no trace.

        The router asks only while fewer than ``capacity`` messages wait.
        """
        ...

    def restore(self, message: Message) -> None:
        """Put back a message that was admitted before, regardless of capacity, behind those already here."""
        ...

    def take(self) -> Message | None:
        """Remove and return the next message by this lane's order, or None when empty."""
        ...

    def __len__(self) -> int:
        """Messages waiting."""
        ...

    def __iter__(self) -> Iterator[Message]:
        """Waiting messages in arrival order; does not change anything."""
        ...


@runtime_checkable
class LaneDiscipline(Protocol):
    """Makes lanes."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    def lane(self, receiver: str, capacity: int, rng: random.Random) -> Lane:
        """An empty lane for at most ``capacity`` messages; ``rng`` is its only source of randomness."""
        ...
