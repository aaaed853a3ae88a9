"""A mailbox and its leases: what one receiver has waiting, in backoff and in its hands."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import PluginError
from ..interfaces.lane import Lane
from ..interfaces.message import AgentID, Epoch, Message, RouteResult
from .dedup import DedupStore
from .envelope import Envelope
from .pairs import Pairs
from .record import Record

UNANSWERED = Message("", "", AgentID(""), AgentID(""), Epoch(0), {}, created_ts=0.0)
"""Stands for a message while the lane has not answered."""


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
    """State of one receiver in one epoch. Its time-to-live clock stands still while it holds any lease.

    The lane is a plugin: it says who is served next, and nothing else. What waits is known from
    ``waiting``, so a lane that loses, invents, repeats or miscounts is found out when it is asked, and
    nothing is lost by it.
    """

    __slots__ = (
        "agent",
        "bytes",
        "dedup",
        "gone",
        "held_since",
        "lane",
        "leases",
        "pairs",
        "record",
        "retries",
        "stopped",
        "waiters",
        "waiting",
    )

    def __init__(
        self, agent: AgentID, lane: Lane, record: Record, dedup: DedupStore | None, pairs: Pairs | None
    ) -> None:
        self.agent = agent
        self.record = record
        """Whose mailbox it is, by the router's own counters."""
        self.gone = False
        """True while the agent is not in the roster: nothing waits here, a last lease may end."""
        self.lane = lane
        self.waiting: dict[int, Envelope] = {}
        """What the lane must hold, by the hop's number, in order of arrival."""
        self.retries: list[tuple[float, int, Envelope]] = []
        """Heap of (due, order, envelope): messages in retry backoff."""
        self.leases: dict[int, Lease] = {}
        """By id, in the order of their deadlines."""
        self.waiters: deque[asyncio.Future[None]] = deque()
        self.stopped = 0.0
        """Seconds for which the time-to-live clock has stood still, the current lease not counted."""
        self.held_since = 0.0
        self.bytes = 0
        """Payload bytes that wait, are in backoff or in the agent's hands; counted only where bytes are bounded."""
        self.dedup = dedup
        self.pairs = pairs
        """The order of pairs, where it is strict."""

    def life(self, now: float) -> float:
        """Reading of the time-to-live clock."""
        return (self.held_since if self.leases else now) - self.stopped

    def release(self, lease: Lease, now: float) -> None:
        """Take a message out of the agent's hands."""
        lease.live = False
        del self.leases[lease.id]
        if not self.leases:
            self.stopped += now - self.held_since

    def restore(self, envelope: Envelope) -> None:
        """Put a message that was admitted before into the lane."""
        self.waiting[envelope.number] = envelope
        if self.pairs is not None:
            self.pairs.add(envelope)
        try:
            self.lane.restore(envelope)
        except Exception as error:  # noqa: BLE001 - a plugin's edge: the step goes on, the consumer hears of it
            self.lane = Stopgap(self.waiting.values(), self._broken(f"raised {error!r} in restore"))

    def take(self) -> Envelope | None:
        """The next message by the lane's order. Raises PluginError, once, when the lane breaks its contract."""
        waiting = self.waiting
        if not waiting:
            return None
        message: Message | None = UNANSWERED
        try:
            message = self.lane.take()
            envelope = waiting.pop(message.number)  # type: ignore[union-attr]  # what has no number is found out below
        except Exception as error:  # a plugin's edge: a named error, and no message lost
            raise self._mistaken(message, error) from error
        if message is not envelope:
            waiting[envelope.number] = envelope
            raise self._mistaken(message, None)
        return envelope

    def _mistaken(self, message: Any, error: Exception | None) -> Exception:
        """What is wrong with the lane's answer to ``take``."""
        if message is not UNANSWERED:
            given = "nothing" if message is None else repr(getattr(message, "msg_id", message))
            return self.fault(f"gives {given}, while {len(self.waiting)} other messages wait")
        return error if error and isinstance(self.lane, Stopgap) else self.fault(f"raised {error!r} in take")

    def fault(self, what: str) -> PluginError:
        """The error that names the lane; a plain queue with all that waits takes the lane's place."""
        error = self._broken(what)
        self.lane = Stopgap(self.waiting.values())
        return error

    def _broken(self, what: str) -> PluginError:
        kind = type(self.lane)
        name = f"{kind.__module__}.{kind.__qualname__}"
        return PluginError(f"lane {name} of {self.agent} {what}", "report this to its author, or use --lane fifo")

    def pending(self) -> list[Envelope]:
        """Everything that waits, in order: retries by due time, then the lane in arrival order."""
        waiting = self.waiting.values() if self.pairs is None else self.pairs
        return [*(envelope for _, _, envelope in sorted(self.retries)), *waiting]

    def empty(self, lane: Lane) -> None:
        """Start over with an empty lane; leases stay."""
        self.lane, self.waiting, self.retries = lane, {}, []
        if self.pairs is not None:
            self.pairs = Pairs(lease.message for lease in self.leases.values())

    def hasten(self, now: float) -> None:
        """Make every backoff due."""
        self.retries = [(min(due, now), order, envelope) for due, order, envelope in self.retries]
        heapq.heapify(self.retries)

    def idle(self) -> bool:
        """Whether nothing waits, neither in the lane nor in backoff."""
        return not self.retries and not self.waiting and not (self.pairs and self.pairs.parked)

    def queued(self) -> int:
        """Messages that wait for service, backoff not counted."""
        return len(self.waiting) + (self.pairs.parked if self.pairs is not None else 0)

    def wake(self) -> None:
        """Let one waiting consumer look again."""
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


class Stopgap:
    """A plain queue in the place of a lane that broke its contract; ``fault`` is raised by the next ``take``."""

    def __init__(self, messages: Iterable[Message] = (), fault: PluginError | None = None) -> None:
        self._messages = deque(messages)
        self._fault = fault

    def offer(self, message: Message) -> RouteResult:
        """Admit: the router itself bounds what waits."""
        self._messages.append(message)
        return RouteResult.ENQUEUED

    def restore(self, message: Message) -> None:
        """Admit."""
        self._messages.append(message)

    def take(self) -> Message | None:
        """The oldest."""
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault
        return self._messages.popleft() if self._messages else None

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)
