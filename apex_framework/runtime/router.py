"""The router: every message between agents passes here, and none is lost in silence.

Delivery is at least once for every admitted message until its time to live or its attempts run out.
Order is first in, first out per (hop sender, receiver, priority, epoch); a message in retry backoff
leaves its place, later ones may overtake it, and it is served first once its backoff is over.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable

from ..errors import UnknownNameError
from ..events import MessageMoved, PressureChanged
from ..interfaces.lane import LaneDiscipline
from ..interfaces.message import AgentID, DeadReason, Message
from ..interfaces.policy import Ruling
from ..interfaces.transport import Transport
from ..ports import Clock
from .dedup import DEDUP_TTL_S, DedupStore
from .dispatch import Dispatch
from .envelope import Envelope, new
from .mailbox import Lease, Mailbox, Stopgap
from .pressure import Bytes, Pressure, Retries, RetryBudget, Throttle
from .record import Record
from .routes import RouteTable
from .state import CLOSED, Held

BACKOFF_S = 0.1
"""First retry backoff in seconds; each further one is twice as long, all of them +-10 %."""


class Router(Dispatch):
    """Messages in motion between the members of one team.

    Everything but ``lease`` and ``route`` is synchronous. A payload is shared by its receivers:
    nobody may change it. ``lease_s`` is how long an agent may keep a message before it is given to
    it again; ``ttl_s`` counts from admission and stands still while the receiver holds any lease.

    Off unless asked for: ``strict_pair_fifo`` (nothing overtakes between two agents, whatever its class or
    backoff), ``dedup_cap`` (messages that each receiver remembers, to flag what it has had as redelivered),
    ``lane_bytes`` and ``total_bytes`` (payload bytes in front of one receiver, or of all), ``retry_budget`` and
    ``throttle`` (see ``pressure``; ``on_pressure`` hears of every rung). Raises ValueError for impossible values.
    """

    __slots__ = ("_last_lease", "_last_retry", "_lease_s", "_max_attempts", "_retries")

    def __init__(
        self,
        table: RouteTable,
        *,
        lanes: LaneDiscipline,
        transport: Transport,
        clock: Clock,
        rng: random.Random,
        capacity: int = 10_000,
        ttl_s: float = 60.0,
        max_attempts: int = 5,
        lease_s: float = 600.0,
        on_event: Callable[[MessageMoved], None] | None = None,
        allow: Callable[[Message], Ruling] | None = None,
        strict_pair_fifo: bool = False,
        dedup_cap: int = 0,
        dedup_ttl_s: float = DEDUP_TTL_S,
        lane_bytes: int | None = None,
        total_bytes: int | None = None,
        retry_budget: RetryBudget | None = None,
        throttle: Throttle | None = None,
        on_pressure: Callable[[PressureChanged], None] | None = None,
    ) -> None:
        if dedup_cap < 0 or dedup_ttl_s <= 0:
            raise ValueError(f"dedup_cap is {dedup_cap!r} and dedup_ttl_s {dedup_ttl_s!r}, not positive")
        super().__init__(
            table,
            lanes=lanes,
            transport=transport,
            clock=clock,
            rng=rng,
            capacity=capacity,
            ttl_s=ttl_s,
            record=Record(clock.monotonic, on_event),
            allow=allow,
            caps=None if lane_bytes is None and total_bytes is None else Bytes(lane_bytes, total_bytes),
            pressure=None if throttle is None else Pressure(throttle, on_pressure),
            dedup=(lambda: DedupStore(dedup_cap, dedup_ttl_s)) if dedup_cap else None,
            strict=strict_pair_fifo,
        )
        self._max_attempts, self._lease_s = max_attempts, lease_s
        self._retries = None if retry_budget is None else Retries(retry_budget, clock.monotonic())
        self._last_lease = self._last_retry = 0

    def waiting(self, agent: AgentID) -> int:
        """Messages that wait for one agent, backoff included."""
        box = self._boxes[agent]
        return box.queued() + len(box.retries)

    def try_lease(self, agent: AgentID) -> Lease | None:
        """The next message for an agent, in its hands until ack, nack or the lease's deadline; None when none is due.

        Raises UnknownNameError for an agent that is not in the roster, and PluginError, once, when its lane
        breaks its contract: a plain queue has then taken the lane's place, and nothing is lost.
        """
        box = self._boxes.get(agent)
        if box is None:
            raise UnknownNameError("agent", agent, self._boxes)
        now = self._now()
        leases = box.leases
        while leases and (first := next(iter(leases.values()))).deadline <= now:
            self.nack(first, "lease_expired")
        life = (box.held_since if leases else now) - box.stopped
        while True:
            envelope = self._pick(box, now) if box.retries or box.pairs is not None else box.take()
            if envelope is None or life <= envelope.mark:
                break
            self._bury(box, envelope, DeadReason.EXPIRED)
        lease = None
        if envelope is not None:
            lease = new(Lease)  # field by field, as an envelope
            self._last_lease = lease.id = number = self._last_lease + 1
            lease.box, lease.message, lease.deadline, lease.live = box, envelope, now + self._lease_s, True
            if not leases:
                box.held_since = now
            leases[number] = lease
            if box.dedup is not None and box.dedup.seen(envelope.episode_id, envelope.msg_id, now):
                self._record.duplicates += not envelope.redelivered
                envelope.redelivered = True
            if self._retries is not None and not envelope.attempt:
                self._retries.earn()
            if envelope.redelivered:
                self._record.redelivered += 1
            if self._record.listener is not None:
                self._record.tell("delivered", envelope, agent, envelope.size)
        if self._watch is not None:
            self._watch()
        return lease

    def _pick(self, box: Mailbox, now: float) -> Envelope | None:
        """The next message to hand out: a retry that is due, else by the lane's order."""
        if box.retries and box.retries[0][0] <= now and (self._retries is None or self._may_retry(box, now)):
            return heapq.heappop(box.retries)[2]
        pairs = box.pairs
        if pairs is None:
            return box.take()
        if (envelope := pairs.ready()) is not None:
            return envelope
        while (turn := box.take()) is not None:
            if (envelope := pairs.serve(turn)) is not None:
                return envelope
        return None

    def _may_retry(self, box: Mailbox, now: float) -> bool:
        """Whether the retry budget pays for the next retry. An expired one is free, and so is all during a switch."""
        assert self._retries is not None
        if self._admit != self._epoch or box.life(now) > box.retries[0][2].mark or self._retries.spend(now):
            return True
        self._record.postponed += 1
        return False

    async def lease(self, agent: AgentID, *, wait: bool = True) -> Lease | None:
        """The next message for an agent; waits for one unless told not to. None once the episode is closed or the agent gone.

        Cancellation loses nothing: a message changes hands only in the step that returns it.
        """
        while (lease := self.try_lease(agent)) is None and wait and self._admit != CLOSED:
            box = self._boxes[agent]
            if box.gone:
                break
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            box.waiters.append(waiter)
            times = [held.deadline for held in [*box.leases.values()][:1]]
            if box.retries:
                due = box.retries[0][0]
                times.append(due if self._retries is None else max(due, self._retries.resume_at))
            timer = loop.call_later(max(0.0, min(times) - self._now()), box.wake) if times else None
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    box.wake()
                raise
            finally:
                if timer is not None:
                    timer.cancel()
                if waiter in box.waiters:
                    box.waiters.remove(waiter)
        return lease

    async def dequeue(self, agent: AgentID) -> Message | None:
        """Lease one message without waiting (the specification's form); it comes back when its lease runs out."""
        lease = self.try_lease(agent)
        return lease.message if lease is not None else None

    def renew(self, lease: Lease) -> None:
        """Start the lease's time again; nothing happens when it has ended."""
        box, leases = lease.box, lease.box.leases
        if not lease.live or box.record is not self._record:
            self._record.late += 1
            return
        lease.deadline = self._now() + self._lease_s
        del leases[lease.id]
        leases[lease.id] = lease

    def ack(self, lease: Lease) -> bool:
        """The agent is done with it. A message with more of its audience to serve moves on in the same step.

        It moves by the table of the epoch that is served now; while a switch is under way it waits at the
        gate. False, and counted as late, when the lease had ended before or is none of this router's.
        """
        box = lease.box
        if not lease.live or box.record is not self._record:
            self._record.late += 1
            return False
        now, envelope = self._now(), lease.message
        life = box.held_since - box.stopped
        lease.live = False
        del box.leases[lease.id]
        if not box.leases:
            box.stopped += now - box.held_since
        envelope.tally.acked += 1
        if self._record.listener is not None:
            self._record.tell("acked", envelope, box.agent, envelope.size)
        if self._followed:
            self._leave(box, envelope)
        if envelope.hop.rest:
            expires_ts = now + envelope.mark - life
            if self._admit != self._epoch:
                self._hold(envelope, lease.agent, envelope.hop.rest, expires_ts, envelope.size)
            else:
                envelope.tally.admitted += 1
                self._record.hops = order = self._record.hops + 1
                self._resolve(Held(envelope, lease.agent, envelope.hop.rest, expires_ts, envelope.size, order))
        if self._watch is not None:
            self._watch()
        return True

    def nack(self, lease: Lease, reason: str) -> bool:
        """Give a message back for another try after a backoff; dead after ``max_attempts`` deliveries.

        False, and counted as late, when the lease had ended before or is none of this router's.
        """
        box, record = lease.box, self._record
        if not lease.live or box.record is not record:
            record.late += 1
            return False
        now, envelope = self._now(), lease.message
        box.release(lease, now)
        envelope.attempt += 1
        envelope.redelivered = True
        record.tell("nacked", envelope, lease.agent, envelope.size, reason)
        if envelope.attempt >= self._max_attempts:
            self._bury(box, envelope, DeadReason.MAX_RETRIES)
        elif box.gone:
            self._bury(box, envelope, DeadReason.RECIPIENT_GONE)
        else:
            if envelope.topo_epoch != self._epoch:
                envelope.topo_epoch = self._epoch
                record.migrated += 1
                record.tell("migrated", envelope, lease.agent, envelope.size)
            delay = BACKOFF_S * 2 ** (envelope.attempt - 1) * self._rng.uniform(0.9, 1.1)
            self._last_retry += 1
            due = now + delay if self._admit == self._epoch else now
            heapq.heappush(box.retries, (due, self._last_retry, envelope))
            box.wake()
        if self._watch is not None:
            self._watch()
        return True

    def close_episode(self) -> None:
        """Refuse everything from now on; whatever is left becomes a dead letter. Idempotent."""
        self._admit = CLOSED
        now, record, over = self._now(), self._record, DeadReason.EPISODE_OVER
        for held in self._next:
            record.bury(held.message, over, "", held.size, held.holder, held.order)
        self._next.clear()
        for box in self._boxes.values():
            left = [lease.message for lease in box.leases.values()] + box.pending()
            for lease in list(box.leases.values()):
                box.release(lease, now)
            for envelope in left:
                record.bury(envelope, over, box.agent, envelope.size)
            box.empty(Stopgap())
            box.bytes = 0
            while box.waiters:
                box.wake()
        if self._bytes is not None:
            self._bytes.total = 0
        if self._watch is not None:
            self._watch()
