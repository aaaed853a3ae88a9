"""Dispatch: from a message and its audience to envelopes in lanes, or to the epoch gate while it is shut."""

from __future__ import annotations

import asyncio

from ..errors import PayloadError, PayloadTooLargeError
from ..interfaces.message import MAX_PAYLOAD_BYTES, AgentID, DeadReason, Message, RouteResult
from .envelope import stamp
from .routes import Hop, Plan
from .state import CLOSED, FULL, Held, State

ENQUEUED = RouteResult.ENQUEUED
NO_ROUTE = RouteResult.NO_ROUTE


class Dispatch(State):
    """The sending half of the router. All of it but ``route`` is synchronous."""

    __slots__ = ()

    def send(self, message: Message) -> RouteResult:
        """Route a message from ``message.sender`` to its audience; true when at least one hop was admitted.

        Raises PayloadError when the payload has no JSON form, PayloadTooLargeError above 512 KB, and PluginError
        when a lane breaks its contract: the hop to its receiver counts as refused, the other hops as usual.
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
        return self._fan(message, plan.hops, now, expires, size)

    async def route(self, message: Message) -> RouteResult:
        """``send``, in the form of the specification; with ``throttle`` it waits first where a receiver is behind.

        Cancelled while it waits, it has sent nothing.
        """
        if self._pressure is not None and (wait_s := self._wait_s(message)) > 0:
            self._record.throttled += 1
            await asyncio.sleep(wait_s)
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
        return self._fan(message, (Hop(message.recipient, (), False),), now, expires, size)

    def _fan(self, message: Message, hops: tuple[Hop, ...], now: float, expires: float, size: int) -> RouteResult:
        """Offer a message to the lanes of its first hops; true when one of them has admitted it."""
        record, boxes, capacity, followed = self._record, self._boxes, self._capacity, self._followed
        try:
            tally = record.tallies[message.priority]
        except (KeyError, TypeError):
            tally = record.other
        offered: object
        result, fault = NO_ROUTE, None
        for hop in hops:
            box = boxes[hop.receiver]
            mark = expires - now + box.life(now) if box.leases else expires - box.stopped
            record.hops = number = record.hops + 1
            envelope = stamp(message, hop, None, self._epoch, expires, mark, size, number, number, tally)
            waiting = box.waiting
            if len(waiting) >= capacity or (followed and self._excess(box, size)):
                offered = FULL
            else:
                try:
                    offered = box.lane.offer(envelope)
                except Exception as error:  # noqa: BLE001 - a plugin's edge: named below, and no message lost
                    offered = error
            if offered is ENQUEUED:
                result = ENQUEUED
                tally.admitted += 1
                record.bytes += size
                waiting[number] = envelope
                if followed:
                    self._follow(box, envelope)
                if record.listener is not None:
                    record.tell("routed", envelope, hop.receiver, size)
                if box.waiters:
                    box.wake()
            else:
                answer, broken = self._refused(box, envelope, offered)
                result, fault = result or answer, fault or broken
        if fault is not None:
            raise fault
        return result

    def _hold(
        self, message: Message, holder: AgentID | None, targets: tuple[AgentID, ...] | None, expires: float, size: int
    ) -> RouteResult:
        """Keep a message at the gate until the switch is decided; a new one needs room, a forwarded one does not."""
        record, caps = self._record, self._bytes
        if targets is None or holder is None:
            if self._admit == CLOSED:
                return record.refuse(message, RouteResult.CLOSED, "", size)
            if targets is None and not self._table.plan(message.sender, message.audience or message.recipient).meant:
                return record.refuse(message, RouteResult.NO_ROUTE, "", size)
            if len(self._next) >= self._capacity * len(self._boxes):
                return record.refuse(message, RouteResult.FULL, "", size)
            if caps is not None and caps.total + size > caps.total_cap:
                return record.refuse(message, RouteResult.FULL, "", size, "total_bytes")
        record.tally(message).admitted += 1
        record.hops += 1
        self._next.append(Held(message, holder, targets, expires, size, record.hops, True))
        if caps is not None:
            caps.add(None, size)
        record.tell("held", message, "", size, holder=holder, hop=record.hops)
        return ENQUEUED

    def _resolve(self, held: Held) -> None:
        """Give an admitted message its way by the current table, past capacity and early drop.

        One admitted thing becomes as many as it has hops, or a dead letter where no path is left.
        """
        record, message, now = self._record, held.message, self._now()
        if held.gated and self._bytes is not None:
            self._bytes.add(None, -held.size)
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
        tally = record.tally(message)
        tally.admitted += len(hops) - 1
        record.bytes += held.size * len(hops)
        if via is not None:
            record.forwarded += len(hops)
        if held.gated:
            record.tell("released", message, "", held.size, holder=held.holder, hop=held.order)
        for hop in hops:
            box = self._boxes[hop.receiver]
            mark = held.expires_ts - now + box.life(now)
            record.hops = number = record.hops + 1
            envelope = stamp(
                message, hop, via, self._epoch, held.expires_ts, mark, held.size, number, held.order, tally
            )  # fmt: skip
            box.restore(envelope)
            if self._bytes is not None:
                self._bytes.add(box, held.size)
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
