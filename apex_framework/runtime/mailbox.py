"""A mailbox and its leases: what one receiver has waiting, in backoff and in its hands."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque

from ..interfaces.lane import Lane
from ..interfaces.message import AgentID
from .envelope import Envelope


class Lease:
    """A message in an agent's hands until it is acknowledged, refused, or ``deadline`` (clock seconds) passes."""

    __slots__ = ("box", "deadline", "id", "live", "message")

    def __init__(self, id: int, box: Mailbox, message: Envelope, deadline: float) -> None:
        self.id = id
        self.box = box
        self.message = message
        self.deadline = deadline
        self.live = True

    @property
    def agent(self) -> AgentID:
        """Who has it."""
        return self.box.agent

    @property
    def is_relay(self) -> bool:
        """True when the receiver is not in the audience: it has the message only to pass it on."""
        return self.message.hop.relay


class Mailbox:
    """State of one receiver in one epoch. Its time-to-live clock stands still while it holds any lease."""

    __slots__ = ("agent", "gone", "held_since", "lane", "leases", "retries", "stopped", "waiters")

    def __init__(self, agent: AgentID, lane: Lane) -> None:
        self.agent = agent
        self.gone = False
        """True while the agent is not in the roster: nothing waits here, a last lease may end."""
        self.lane = lane
        self.retries: list[tuple[float, int, Envelope]] = []
        """Heap of (due, order, envelope): messages in retry backoff."""
        self.leases: dict[int, Lease] = {}
        """By id, in the order of their deadlines."""
        self.waiters: deque[asyncio.Future[None]] = deque()
        self.stopped = 0.0
        """Seconds for which the time-to-live clock has stood still, the current lease not counted."""
        self.held_since = 0.0

    def life(self, now: float) -> float:
        """Reading of the time-to-live clock."""
        return (self.held_since if self.leases else now) - self.stopped

    def release(self, lease: Lease, now: float) -> None:
        """Take a message out of the agent's hands."""
        lease.live = False
        del self.leases[lease.id]
        if not self.leases:
            self.stopped += now - self.held_since

    def pending(self) -> list[Envelope]:
        """Everything that waits, in order: retries by due time, then the lane in arrival order."""
        waiting: list[Envelope] = [envelope for _, _, envelope in sorted(self.retries)]
        for message in self.lane:
            assert isinstance(message, Envelope)
            waiting.append(message)
        return waiting

    def hasten(self, now: float) -> None:
        """Make every backoff due."""
        self.retries = [(min(due, now), order, envelope) for due, order, envelope in self.retries]
        heapq.heapify(self.retries)

    def idle(self) -> bool:
        """Whether nothing waits, neither in the lane nor in backoff."""
        return not self.retries and not len(self.lane)

    def wake(self) -> None:
        """Let one waiting consumer look again."""
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
