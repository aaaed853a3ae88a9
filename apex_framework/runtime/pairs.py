"""Strict order per pair: nothing overtakes a message between the same two agents, not even in its backoff."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from ..interfaces.message import AgentID
from .envelope import Envelope


class Pairs:
    """One receiver's messages by hop sender. The lane says which pair is served, the oldest of the pair goes.

    While a message of a pair is in backoff or in the receiver's hands, the pair rests: its further
    turns are kept and served first, once that message has ended.
    """

    __slots__ = ("_busy", "_queues", "_ready", "_turns", "parked")

    def __init__(self, busy: Iterable[Envelope] = ()) -> None:
        self._queues: dict[AgentID, deque[Envelope]] = {}
        self._busy = Counter(envelope.holder for envelope in busy)
        self._turns: Counter[AgentID] = Counter()
        """Turns that the lane gave to a resting pair."""
        self._ready: deque[AgentID] = deque()
        self.parked = 0
        """Sum of the turns kept: messages that wait, but no more in the lane."""

    def add(self, envelope: Envelope) -> None:
        """A message has entered the lane."""
        self._queues.setdefault(envelope.holder, deque()).append(envelope)

    def serve(self, turn: Envelope | None) -> Envelope | None:
        """The message to hand out for the turn that the lane gave; None when the pair rests and the turn is kept."""
        if turn is None:
            return None
        holder = turn.holder
        if self._busy[holder]:
            self._turns[holder] += 1
            self.parked += 1
            return None
        self._busy[holder] += 1
        return self._oldest(holder)

    def ready(self) -> Envelope | None:
        """The oldest message of a pair that rests no more and has turns to its credit, or None."""
        while self._ready:
            holder = self._ready.popleft()
            if self._turns[holder] and not self._busy[holder]:
                self._turns[holder] -= 1
                self.parked -= 1
                self._busy[holder] += 1
                return self._oldest(holder)
        return None

    def end(self, envelope: Envelope) -> bool:
        """A message that was handed out is acknowledged or dead; whether another of the pair may be handed out now."""
        holder = envelope.holder
        self._busy[holder] -= 1
        if self._busy[holder] or not self._turns[holder]:
            return False
        self._ready.append(holder)
        return True

    def _oldest(self, holder: AgentID) -> Envelope:
        queue = self._queues[holder]
        envelope = queue.popleft()
        if not queue:
            del self._queues[holder]
        return envelope

    def __iter__(self) -> Iterator[Envelope]:
        """What waits, in order of arrival."""
        return iter(sorted((e for queue in self._queues.values() for e in queue), key=lambda e: (e.order, e.number)))
