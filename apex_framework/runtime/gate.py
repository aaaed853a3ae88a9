"""The epoch gate: while a switch is under way new messages wait here, unresolved, until it is decided."""

from __future__ import annotations

from collections.abc import Callable

from ..interfaces.message import DeadReason, Epoch
from .dispatch import Held
from .envelope import Envelope
from .router import Router
from .routes import RouteTable


class EpochGate:
    """Opens and shuts a router's gate. Every method is one synchronous step: epoch N or N+1, never a mixture."""

    def __init__(self, router: Router) -> None:
        self._router = router

    @property
    def is_shut(self) -> bool:
        """Whether new messages wait for the next epoch."""
        return self._router._admit == self._router._epoch + 1

    def shut(self) -> None:
        """New messages wait from now on; what is in backoff becomes due. Raises RuntimeError after the episode."""
        router = self._router
        if router._admit != router._epoch:
            raise RuntimeError("the gate is shut, or the episode over")
        router._admit = Epoch(router._epoch + 1)
        now = router._now()
        for box in router._boxes.values():
            box.hasten(now)
            if box.retries:
                box.wake()

    def drained(self, migrate: bool) -> bool:
        """Whether no message of this epoch waits any more; with ``migrate``, for a receiver that holds no lease."""
        return all(box.idle() or (migrate and bool(box.leases)) for box in self._router._boxes.values())

    def watch(self, changed: Callable[[], None] | None) -> None:
        """Call ``changed`` after every step that may drain a lane; None stops it."""
        self._router._watch = changed

    def abort(self) -> None:
        """Stay in this epoch: what waited here gets its way by the old table, past capacity, in arrival order."""
        router = self._router
        router._admit = router._epoch
        self._release()

    def commit(self, table: RouteTable) -> tuple[int, dict[str, int]]:
        """Enter the next epoch with a new table; returns how many messages moved with it, and deaths by reason.

        What still waits keeps its right of delivery and comes before everything of the new epoch, in
        its order: where the new topology has the edge of its hop it stays in front of its receiver,
        otherwise it is routed anew from its holder to the part of its audience that this hop owed.
        """
        router = self._router
        before = dict(router._record.dead)
        carried = [(box, envelope) for box in router._boxes.values() for envelope in box.pending()]
        moved = router._record.migrated
        members = set(table.roster.ids)
        router._epoch = Epoch(router._epoch + 1)
        router._admit = router._epoch
        router._table, router._plans = table, table.plans
        router._turns = {}
        now = router._now()
        lives = {box.agent: box.life(now) for box in router._boxes.values()}
        for agent, box in router._boxes.items():
            box.gone = agent not in members
            box.retries = []
            box.lane = router._lanes.lane(agent, router._capacity, router._rng)
        for agent in table.roster.ids:
            if agent not in router._boxes:
                router._boxes[agent] = router._mailbox(agent)
        for box, envelope in carried:
            self._carry(envelope, now + envelope.mark - lives[box.agent])
        moved = router._record.migrated - moved
        self._release()
        dead = router._record.dead
        return moved, {
            reason.value: n - before.get(reason, 0) for reason, n in dead.items() if n > before.get(reason, 0)
        }

    def _carry(self, envelope: Envelope, expires_ts: float) -> None:
        """Move one waiting message into the new epoch."""
        router, record = self._router, self._router._record
        box = router._boxes[envelope.recipient]
        injected = envelope.holder not in router._boxes
        record.migrated += 1
        if not box.gone and (injected or router._table.allows(envelope.holder, envelope.recipient)):
            envelope.topo_epoch = router._epoch
            box.lane.restore(envelope)
            record.tell("migrated", envelope, envelope.recipient, envelope.size)
            return
        targets = tuple(t for t in envelope.targets if t in router._boxes and not router._boxes[t].gone)
        if not targets:
            record.bury(envelope, DeadReason.RECIPIENT_GONE, envelope.recipient, envelope.size)
            return
        record.tell("migrated", envelope, "", envelope.size, envelope.recipient)
        router._resolve(Held(envelope, envelope.holder, targets, expires_ts, envelope.size))

    def _release(self) -> None:
        """Send everything that waited here on its way, in arrival order."""
        router = self._router
        waiting, router._next = router._next, []
        for held in waiting:
            router._resolve(held)
        for box in router._boxes.values():
            while box.waiters and (box.gone or not box.idle()):
                box.wake()
                if not box.gone:
                    break
