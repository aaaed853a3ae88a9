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
from ..events import MessageMoved
from ..interfaces.lane import LaneDiscipline
from ..interfaces.message import AgentID, DeadReason, Message
from ..interfaces.policy import Ruling
from ..interfaces.transport import Transport
from ..ports import Clock
from .dispatch import CLOSED, Dispatch, Held
from .envelope import Envelope
from .mailbox import Lease
from .routes import RouteTable

BACKOFF_S = 0.1
"""First retry backoff in seconds; each further one is twice as long, all of them +-10 %."""


class Router(Dispatch):
    """Messages in motion between the members of one team.

    Everything but ``lease`` and ``route`` is synchronous. A payload is shared by its receivers:
    nobody may change it. ``lease_s`` is how long an agent may keep a message before it is given to
    it again; ``ttl_s`` counts from admission and stands still while the receiver holds any lease.
    """

    __slots__ = ("_last_lease", "_last_retry", "_lease_s", "_max_attempts")

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
    ) -> None:
        super().__init__(
            table,
            lanes=lanes,
            transport=transport,
            clock=clock,
            rng=rng,
            capacity=capacity,
            ttl_s=ttl_s,
            on_event=on_event,
            allow=allow,
        )
        self._max_attempts, self._lease_s = max_attempts, lease_s
        self._last_lease = self._last_retry = 0

    def waiting(self, agent: AgentID) -> int:
        """Messages that wait for one agent, backoff included."""
        box = self._boxes[agent]
        return len(box.lane) + len(box.retries)

    def try_lease(self, agent: AgentID) -> Lease | None:
        """The next message for an agent, in its hands until ack, nack or the lease's deadline; None when none is due.

        Raises UnknownNameError for an agent that is not in the roster.
        """
        box = self._boxes.get(agent)
        if box is None:
            raise UnknownNameError("agent", agent, self._boxes)
        now = self._now()
        while box.leases and (first := next(iter(box.leases.values()))).deadline <= now:
            self.nack(first, "lease_expired")
        life = box.held_since - box.stopped if box.leases else now - box.stopped
        while True:
            envelope: Message | None
            envelope = heapq.heappop(box.retries)[2] if box.retries and box.retries[0][0] <= now else box.lane.take()
            if envelope is None:
                break
            assert isinstance(envelope, Envelope)
            if life <= envelope.mark:
                break
            self._record.bury(envelope, DeadReason.EXPIRED, agent, envelope.size)
        lease = None
        if envelope is not None:
            self._last_lease = number = self._last_lease + 1
            lease = Lease(number, box, envelope, now + self._lease_s)
            if not box.leases:
                box.held_since = now
            box.leases[number] = lease
            if envelope.redelivered:
                self._record.redelivered += 1
            if self._record.listener is not None:
                self._record.tell("delivered", envelope, agent, envelope.size)
        if self._watch is not None:
            self._watch()
        return lease

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
            times = [due for due, _, _ in box.retries[:1]] + [held.deadline for held in [*box.leases.values()][:1]]
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
        """Start the lease's time again."""
        if lease.live:
            lease.deadline = self._now() + self._lease_s
            del lease.box.leases[lease.id]
            lease.box.leases[lease.id] = lease

    def ack(self, lease: Lease) -> bool:
        """The agent is done with it. A message with more of its audience to serve moves on in the same step.

        It moves by the table of the epoch that is served now; while a switch is under way it waits at the
        gate. False when the lease had ended before.
        """
        if not lease.live:
            return False
        now, box, envelope = self._now(), lease.box, lease.message
        life = box.held_since - box.stopped
        lease.live = False
        del box.leases[lease.id]
        if not box.leases:
            box.stopped += now - box.held_since
        self._record.acked += 1
        if self._record.listener is not None:
            self._record.tell("acked", envelope, lease.agent, envelope.size)
        if envelope.hop.rest:
            expires_ts = now + envelope.mark - life
            if self._admit != self._epoch:
                self._hold(envelope, lease.agent, envelope.hop.rest, expires_ts, envelope.size)
            else:
                self._record.admitted += 1
                self._record.hops = order = self._record.hops + 1
                self._resolve(Held(envelope, lease.agent, envelope.hop.rest, expires_ts, envelope.size, order))
        if self._watch is not None:
            self._watch()
        return True

    def nack(self, lease: Lease, reason: str) -> bool:
        """Give a message back for another try after a backoff; dead after ``max_attempts`` deliveries.

        False when the lease had ended before.
        """
        if not lease.live:
            return False
        now, record = self._now(), self._record
        box, envelope = lease.box, lease.message
        box.release(lease, now)
        envelope.attempt += 1
        envelope.redelivered = True
        record.tell("nacked", envelope, lease.agent, envelope.size, reason)
        if envelope.attempt >= self._max_attempts:
            record.bury(envelope, DeadReason.MAX_RETRIES, lease.agent, envelope.size)
        elif box.gone:
            record.bury(envelope, DeadReason.RECIPIENT_GONE, lease.agent, envelope.size)
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
            for lease in list(box.leases.values()):
                box.release(lease, now)
                record.bury(lease.message, over, box.agent, lease.message.size)
            for envelope in box.pending():
                record.bury(envelope, over, box.agent, envelope.size)
            box.retries.clear()
            box.lane = self._lanes.lane(box.agent, self._capacity, self._rng)
            while box.waiters:
                box.wake()
        if self._watch is not None:
            self._watch()
