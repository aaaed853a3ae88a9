"""What both halves of the router share: mailboxes, counters, the epoch, and what happens at a message's two ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import PluginError
from ..interfaces.lane import Lane, LaneDiscipline
from ..interfaces.message import AgentID, DeadReason, Epoch, Message, RouteResult
from ..interfaces.policy import Ruling
from ..interfaces.transport import Transport
from ..ports import Clock
from .dedup import DedupStore
from .envelope import Envelope
from .mailbox import Mailbox, Stopgap
from .pairs import Pairs
from .pressure import Bytes, Pressure
from .record import Record, RouterStats
from .routes import RouteTable

FULL = RouteResult.FULL
WRED = RouteResult.WRED
CLOSED = Epoch(-1)
"""Stands for the admitted epoch once the episode is over."""


@dataclass(slots=True)
class Held:
    """A message at the epoch gate: unresolved, it knows where it is and whom it is for, not the way."""

    message: Message
    holder: AgentID | None
    """Where it starts from; None when it comes from outside the team."""
    targets: tuple[AgentID, ...] | None
    """Members still to be served; None: resolve the audience."""
    expires_ts: float
    size: int
    order: int
    """Place in the order of arrival, and the hop's number while it is held."""
    gated: bool = False
    """True when it has waited at the gate."""


class State:
    """Mailboxes and counters of one router. Synchronous: nobody sees a message between two states."""

    __slots__ = (
        "_admit",
        "_allow",
        "_boxes",
        "_bytes",
        "_capacity",
        "_codec",
        "_dedup",
        "_epoch",
        "_followed",
        "_lanes",
        "_local",
        "_next",
        "_now",
        "_plans",
        "_pressure",
        "_record",
        "_rng",
        "_size",
        "_strict",
        "_table",
        "_ttl_s",
        "_turns",
        "_watch",
    )

    def __init__(
        self,
        table: RouteTable,
        *,
        lanes: LaneDiscipline,
        transport: Transport,
        clock: Clock,
        rng: random.Random,
        capacity: int,
        ttl_s: float,
        record: Record,
        allow: Callable[[Message], Ruling] | None,
        caps: Bytes | None,
        pressure: Pressure | None,
        dedup: Callable[[], DedupStore] | None,
        strict: bool,
    ) -> None:
        self._codec, self._size, self._local = transport.codec, transport.codec.size, transport.local
        self._now = clock.monotonic
        self._lanes, self._rng, self._capacity, self._ttl_s = lanes, rng, capacity, ttl_s
        self._allow = allow
        self._bytes, self._pressure, self._dedup, self._strict = caps, pressure, dedup, strict
        self._followed = caps is not None or strict
        """Whether somebody has to know of a hop's end besides the counters."""
        self._record = record
        self._epoch = self._admit = Epoch(0)
        self._table, self._plans = table, table.plans
        self._boxes = {agent: self._mailbox(agent, lanes.lane(agent, capacity, rng)) for agent in table.roster.ids}
        self._next: list[Held] = []
        self._turns: dict[tuple[AgentID, str], int] = {}
        self._watch: Callable[[], None] | None = None
        """Called after every change while a switch waits for the lanes to empty."""

    @property
    def epoch(self) -> Epoch:
        """The epoch that is being served."""
        return self._epoch

    @property
    def closed(self) -> bool:
        """Whether the episode is over."""
        return self._admit == CLOSED

    @property
    def table(self) -> RouteTable:
        """Routes of the epoch that is being served."""
        return self._table

    @property
    def stats(self) -> RouterStats:
        """Counters so far."""
        boxes = self._boxes.values()
        return self._record.stats(
            len(self._next),
            sum(box.queued() for box in boxes),
            [lease.message for box in boxes for lease in box.leases.values()],
            [envelope for box in boxes for _, _, envelope in box.retries],
            {box.agent: box.queued() / self._capacity for box in boxes if not box.gone},
        )

    @property
    def open(self) -> int:
        """Admitted messages that have not ended, from the counters alone: cheaper than ``stats``."""
        return self._record.open

    @property
    def dead_letters(self) -> tuple[Message, ...]:
        """The last 1,000 dead messages; ``drop_reason`` says why."""
        return tuple(self._record.dead_letters)

    def audit(self) -> RouterStats:
        """The counters, after checking that they add up. Raises AssertionError when a message is unaccounted for."""
        stats = self.stats
        if not stats.balanced:
            raise AssertionError(f"messages are unaccounted for: {stats}")
        return stats

    def occupancy(self) -> float:
        """The fullest lane's share of its capacity."""
        return max(box.queued() for box in self._boxes.values()) / self._capacity

    def rung(self, agent: AgentID) -> str:
        """Where a receiver stands on the ladder: ``calm``, ``throttle``, ``shed`` or ``reconfigure``."""
        return "calm" if self._pressure is None else self._pressure.rung(agent)

    def _mailbox(self, agent: AgentID, lane: Lane) -> Mailbox:
        dedup = None if self._dedup is None else self._dedup()
        return Mailbox(agent, lane, self._record, dedup, Pairs() if self._strict else None)

    def _new_lane(self, agent: AgentID) -> Lane:
        """An empty lane; where the plugin fails, a plain queue whose consumer hears of it."""
        try:
            return self._lanes.lane(agent, self._capacity, self._rng)
        except Exception as error:  # noqa: BLE001 - a plugin's edge: a switch must not break in the middle
            cause = f"lane discipline {self._lanes.name} raised {error!r}"
            return Stopgap((), PluginError(cause, "report this to its author, or use --lane fifo"))

    def _pressed(self, box: Mailbox) -> float:
        """How full a lane is, by messages or by bytes."""
        return max(box.queued() / self._capacity, 0.0 if self._bytes is None else box.bytes / self._bytes.lane_cap)

    def _excess(self, box: Mailbox, size: int) -> str:
        """The bound that forbids another hop of so many bytes; empty when it fits."""
        if (caps := self._bytes) is not None:
            if box.bytes + size > caps.lane_cap:
                return "lane_bytes"
            if caps.total + size > caps.total_cap:
                return "total_bytes"
        return FULL.value if self._strict and box.queued() >= self._capacity else ""

    def _follow(self, box: Mailbox, envelope: Envelope) -> None:
        """A hop was admitted to a lane."""
        if (caps := self._bytes) is not None:
            caps.total += envelope.size
            box.bytes += envelope.size
        if box.pairs is not None:
            box.pairs.add(envelope)

    def _leave(self, box: Mailbox, envelope: Envelope) -> None:
        """A hop that was handed out has ended."""
        if (caps := self._bytes) is not None:
            caps.total -= envelope.size
            box.bytes -= envelope.size
        if box.pairs is not None and box.pairs.end(envelope):
            box.wake()

    def _bury(self, box: Mailbox, envelope: Envelope, reason: DeadReason) -> None:
        """A hop that was handed out ends as a dead letter."""
        self._record.bury(envelope, reason, box.agent, envelope.size)
        if self._followed:
            self._leave(box, envelope)

    def _refused(self, box: Mailbox, envelope: Envelope, answer: object) -> tuple[RouteResult, PluginError | None]:
        """Count a refused hop. An answer that no lane may give is a fault of the lane, and the hop refused as FULL."""
        result, fault = FULL, None
        if answer is FULL:
            reason = self._excess(box, envelope.size)
        elif answer is WRED:
            result, reason = WRED, ""
        else:
            fault = box.fault(f"answers an offer with {answer!r}")
            reason = fault.cause
        self._record.refuse(envelope, result, box.agent, envelope.size, reason)
        if self._pressure is not None:
            self._pressure.shed(envelope.episode_id, box.agent, self._pressed(box), self._now())
        return result, fault

    def _wait_s(self, message: Message) -> float:
        """The longest wait that a next receiver of a message asks of its sender; none while a switch is under way."""
        if self._pressure is None or self._admit != self._epoch:
            return 0.0
        hops = self._table.plan(message.sender, message.audience or message.recipient).hops
        boxes = [self._boxes[hop.receiver] for hop in hops]
        waits = [self._pressure.wait_s(message.episode_id, box.agent, self._pressed(box)) for box in boxes]
        return max(waits, default=0.0)
