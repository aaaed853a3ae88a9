"""Dispatch: from a message and its audience to envelopes in lanes, or to the epoch gate while it is shut."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import PayloadError, PayloadTooLargeError
from ..events import MessageMoved
from ..interfaces.lane import LaneDiscipline
from ..interfaces.message import MAX_PAYLOAD_BYTES, AgentID, DeadReason, Epoch, Message, RouteResult
from ..interfaces.policy import Ruling
from ..interfaces.transport import Transport
from ..ports import Clock
from .envelope import stamp
from .mailbox import Mailbox
from .record import Record, RouterStats
from .routes import Hop, Plan, RouteTable

ENQUEUED = RouteResult.ENQUEUED
NO_ROUTE = RouteResult.NO_ROUTE
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


class Dispatch:
    """The sending half of the router. All of it is synchronous: nobody sees a message between two states."""

    __slots__ = (
        "_admit",
        "_allow",
        "_boxes",
        "_capacity",
        "_codec",
        "_epoch",
        "_lanes",
        "_local",
        "_next",
        "_now",
        "_plans",
        "_record",
        "_rng",
        "_size",
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
        on_event: Callable[[MessageMoved], None] | None,
        allow: Callable[[Message], Ruling] | None,
    ) -> None:
        self._codec, self._size, self._local = transport.codec, transport.codec.size, transport.local
        self._now = clock.monotonic
        self._lanes, self._rng, self._capacity, self._ttl_s = lanes, rng, capacity, ttl_s
        self._allow = allow
        self._record = Record(clock.monotonic, on_event)
        self._epoch = self._admit = Epoch(0)
        self._table, self._plans = table, table.plans
        self._boxes = {agent: self._mailbox(agent) for agent in table.roster.ids}
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
        waiting = sum(len(b.lane) for b in boxes) + len(self._next)
        leased, backoff = sum(len(b.leases) for b in boxes), sum(len(b.retries) for b in boxes)
        return self._record.stats(waiting, leased, backoff)

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
        return max(len(b.lane) for b in self._boxes.values()) / self._capacity

    def send(self, message: Message) -> RouteResult:
        """Route a message from ``message.sender`` to its audience; true when at least one hop was admitted.

        Raises PayloadError when the payload has no JSON form, PayloadTooLargeError above 512 KB.
        """
        size = self._size(message)
        if size > MAX_PAYLOAD_BYTES:
            raise PayloadTooLargeError(size, MAX_PAYLOAD_BYTES)
        now = self._now()
        expires = message.expires_ts
        if expires == 0.0:
            expires = now + self._ttl_s
        elif expires <= now:
            return self._record.refuse(message, RouteResult.EXPIRED, "", size)
        if self._allow is not None and not (ruling := self._allow(message)).allow:
            return self._record.refuse(message, RouteResult.POLICY, "", size, ruling.reason)
        if not self._local:
            message = self._over_the_wire(message)
        epoch = self._epoch
        if self._admit != epoch:
            return self._hold(message, message.sender, None, expires, size)
        plan = self._plans.get((message.sender, message.audience or message.recipient))
        if plan is None or plan.special:
            plan = self._turn(message, size)
        record, boxes = self._record, self._boxes
        result = NO_ROUTE
        for hop in plan.hops:
            box = boxes[hop.receiver]
            mark = expires - now + box.life(now) if box.leases else expires - box.stopped
            record.hops = number = record.hops + 1
            envelope = stamp(message, hop, None, epoch, expires, mark, size, number, number)
            offered = box.lane.offer(envelope)
            if offered is ENQUEUED:
                result = ENQUEUED
                record.admitted += 1
                record.bytes += size
                if record.listener is not None:
                    record.tell("routed", envelope, hop.receiver, size)
                if box.waiters:
                    box.wake()
            else:
                record.refuse(envelope, offered, hop.receiver, size)
                if result is not ENQUEUED:
                    result = offered
        return result

    async def route(self, message: Message) -> RouteResult:
        """``send``, under the name and in the form of the specification."""
        return self.send(message)

    def inject(self, message: Message) -> RouteResult:
        """Put a message from outside the team straight into ``message.recipient``'s lane, under the same guards."""
        size = self._size(message)
        if size > MAX_PAYLOAD_BYTES:
            raise PayloadTooLargeError(size, MAX_PAYLOAD_BYTES)
        now = self._now()
        expires = message.expires_ts or now + self._ttl_s
        if expires <= now:
            return self._record.refuse(message, RouteResult.EXPIRED, "", size)
        if self._allow is not None and not (ruling := self._allow(message)).allow:
            return self._record.refuse(message, RouteResult.POLICY, "", size, ruling.reason)
        if not self._local:
            message = self._over_the_wire(message)
        if self._admit != self._epoch:
            return self._hold(message, None, (message.recipient,), expires, size)
        box = self._boxes.get(message.recipient)
        if box is None or box.gone:
            return self._record.refuse(message, RouteResult.NO_ROUTE, message.recipient, size)
        hop, mark = Hop(message.recipient, (), False), expires - now + box.life(now)
        self._record.hops = number = self._record.hops + 1
        envelope = stamp(message, hop, None, self._epoch, expires, mark, size, number, number)
        offered = box.lane.offer(envelope)
        if offered is not ENQUEUED:
            return self._record.refuse(envelope, offered, hop.receiver, size)
        self._record.admitted += 1
        self._record.bytes += size
        self._record.tell("routed", envelope, hop.receiver, size)
        box.wake()
        return ENQUEUED

    def _hold(
        self, message: Message, holder: AgentID | None, targets: tuple[AgentID, ...] | None, expires: float, size: int
    ) -> RouteResult:
        """Keep a message at the gate until the switch is decided; a new one needs room, a forwarded one does not."""
        record = self._record
        if targets is None or holder is None:
            if self._admit == CLOSED:
                return record.refuse(message, RouteResult.CLOSED, "", size)
            if targets is None and not self._table.plan(message.sender, message.audience or message.recipient).meant:
                return record.refuse(message, RouteResult.NO_ROUTE, "", size)
            if len(self._next) >= self._capacity * len(self._boxes):
                return record.refuse(message, RouteResult.FULL, "", size)
        record.admitted += 1
        record.hops += 1
        self._next.append(Held(message, holder, targets, expires, size, record.hops, True))
        record.tell("held", message, "", size, holder=holder, hop=record.hops)
        return ENQUEUED

    def _resolve(self, held: Held) -> None:
        """Give an admitted message its way by the current table, past capacity and early drop.

        One admitted thing becomes as many as it has hops, or a dead letter where no path is left.
        """
        record, message, now = self._record, held.message, self._now()
        if held.holder is None:
            hops: tuple[Hop, ...] = (Hop(message.recipient, (), False),)
            box = self._boxes.get(message.recipient)
            hops = () if box is None or box.gone else hops
        elif held.targets is None:
            hops = self._turn(message, held.size).hops
        else:
            hops = self._table.onward(held.holder, held.targets).hops
        via = held.holder if held.holder != message.sender else None
        if not hops:
            record.bury(message, DeadReason.NO_ROUTE, "", held.size, held.holder, held.order)
            return
        record.admitted += len(hops) - 1
        record.bytes += held.size * len(hops)
        if via is not None:
            record.forwarded += len(hops)
        if held.gated:
            record.tell("released", message, "", held.size, holder=held.holder, hop=held.order)
        for hop in hops:
            box = self._boxes[hop.receiver]
            mark = held.expires_ts - now + box.life(now)
            record.hops = number = record.hops + 1
            envelope = stamp(message, hop, via, self._epoch, held.expires_ts, mark, held.size, number, held.order)
            box.lane.restore(envelope)
            record.tell("routed", envelope, hop.receiver, held.size)
            box.wake()

    def _turn(self, message: Message, size: int) -> Plan:
        """The way of one message by the current table: rotates over a fan-out bound, counts who is left out.

        The hops of (sender, audience) are taken ``cut`` at a time in their order, round and round, so
        that after as many messages as there are hops each has had the same share.
        """
        audience = message.audience or message.recipient
        plan = self._table.plan(message.sender, audience)
        if plan.unreachable or not plan.hops:
            unreached = plan.unreachable or 1
            self._record.refuse(message, RouteResult.NO_ROUTE, "", size, hops=unreached)
        if plan.cut is None:
            return plan
        key, n = (message.sender, audience), len(plan.hops)
        start = self._turns.get(key, 0) % n
        self._turns[key] = (start + plan.cut) % n
        taken = tuple(plan.hops[(start + i) % n] for i in range(plan.cut))
        served = sum(len(h.rest) + (not h.relay) for h in taken)
        self._record.fanout_cut += plan.meant - plan.unreachable - served
        self._record.tell("refused", message, "", size, RouteResult.FANOUT.value)
        return Plan(taken, None, plan.unreachable, plan.meant)

    def _over_the_wire(self, message: Message) -> Message:
        """What the far end of a transport gets. Raises PayloadError when it would get something else, or nothing."""
        ok, copy, code = self._codec.decode(self._codec.encode(message))
        if not ok or copy is None:
            raise PayloadError(f"message {message.msg_id} does not survive its transport: {code}")
        return copy

    def _mailbox(self, agent: AgentID) -> Mailbox:
        return Mailbox(agent, self._lanes.lane(agent, self._capacity, self._rng))
