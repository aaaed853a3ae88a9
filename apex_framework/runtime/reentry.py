"""Reentry: admitted messages come into a router past its admission, because their delivery is promised already.

A durable session admits a message when its record is on disk, and only then lets it into the router; after a
crash it puts back what was under way. Neither may be refused any more: as what waited at the epoch gate, they go
past capacity and early drop.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import PayloadTooLargeError
from ..events import MessageMoved
from ..interfaces.message import MAX_PAYLOAD_BYTES, AgentID, Epoch, Message, RouteResult
from .envelope import Envelope
from .router import Router
from .state import CLOSED, Held


class Reentry:
    """Puts messages into one router. Every method is one synchronous step."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def begin(self, epoch: Epoch) -> None:
        """Serve this epoch from the start. Raises RuntimeError when the router has seen a message."""
        router = self._router
        if router._record.hops or router._admit != router._epoch:
            raise RuntimeError("the router has been used")
        router._epoch = router._admit = epoch

    def judge(self, message: Message) -> RouteResult:
        """What admission would say now; nothing is admitted or counted. Raises PayloadError, PayloadTooLargeError."""
        router = self._router
        size = router._size(message)
        if size > MAX_PAYLOAD_BYTES:
            raise PayloadTooLargeError(size, MAX_PAYLOAD_BYTES)
        if router._admit == CLOSED:
            return RouteResult.CLOSED
        if router._allow is not None and not router._allow(message).allow:
            return RouteResult.POLICY
        plan = router._table.plan(message.sender, message.audience or message.recipient)
        if not plan.hops:
            return RouteResult.NO_ROUTE
        if all(router._boxes[hop.receiver].queued() >= router._capacity for hop in plan.hops):
            return RouteResult.FULL
        return RouteResult.ENQUEUED

    def put(self, message: Message, holder: AgentID | None, targets: tuple[AgentID, ...] | None) -> None:
        """Admit a message where it is: at ``holder`` (None: outside), still owed to ``targets`` (None: its audience).

        Its time to live begins now. Nothing happens once the episode is over.
        """
        router = self._router
        if router._admit == CLOSED:
            return
        record, size, expires = router._record, router._size(message), router._now() + router._ttl_s
        record.tally(message).admitted += 1
        record.hops += 1
        held = Held(message, holder, targets, expires, size, record.hops, router._admit != router._epoch)
        if not held.gated:
            router._resolve(held)
            return
        router._next.append(held)
        if router._bytes is not None:
            router._bytes.add(None, size)
        record.tell("held", message, "", size, holder=holder, hop=record.hops)

    def mark(self, agent: AgentID, msg_id: str, attempt: int) -> None:
        """Say of a message that has just come to ``agent`` that it may have had it, and how often it failed on it."""
        for envelope in reversed(self._router._boxes[agent].waiting.values()):
            if envelope.msg_id == msg_id:
                envelope.attempt, envelope.redelivered = attempt, True
                return

    def hear(self, listener: Callable[[MessageMoved], None]) -> None:
        """Tell ``listener`` of everything that moves from now on, before whoever listens already."""
        record = self._router._record
        before = record.listener

        def both(event: MessageMoved) -> None:
            listener(event)
            if before is not None:
                before(event)

        record.listener = both

    def mourn(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after every dead letter; it may not touch the router in that step."""
        self._router._record.on_dead = listener

    def offer(self, message: Message) -> tuple[RouteResult, str]:
        """Inject a message; when it is refused also which bound or ruling forbade it, empty when the result says it all."""
        record, whys = self._router._record, []
        before = record.listener

        def listener(event: MessageMoved) -> None:
            if event.what == "refused":
                whys.append(event.reason)
            if before is not None:
                before(event)

        record.listener = listener
        try:
            result = self._router.inject(message)
        finally:
            record.listener = before
        why = whys[-1] if whys and not result else ""
        return result, "" if why == result.value else why

    @property
    def latest_dead(self) -> tuple[AgentID, ...] | None:
        """Whom the latest dead letter was still owed to; None when it had no way yet."""
        message = self._router._record.dead_letters[-1]
        return message.targets if isinstance(message, Envelope) else None
