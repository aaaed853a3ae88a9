"""The epoch gate: while a switch is under way new messages wait here, unresolved, until it is decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter

from ..interfaces.lane import Lane
from ..interfaces.message import AgentID, DeadReason, Epoch
from ..interfaces.topology import Roster
from .envelope import Envelope
from .router import Router
from .routes import RouteTable
from .state import Held


class EpochGate:
    """Opens and shuts a router's gate. Every method is one synchronous step: epoch N or N+1, never a mixture."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._lanes: dict[AgentID, Lane] = {}
        """Made by ``prepare`` for the next epoch."""

    @property
    def is_shut(self) -> bool:
        """Whether new messages wait for the next epoch."""
        return self._router._admit == self._router._epoch + 1

    def prepare(self, roster: Roster) -> None:
        """Make the lanes of the next epoch: a lane plugin that fails does so before anything has changed."""
        router = self._router
        agents = dict.fromkeys((*router._boxes, *roster.ids))
        self._lanes = {agent: router._lanes.lane(agent, router._capacity, router._rng) for agent in agents}

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

    def undrained(self, migrate: bool) -> list[AgentID]:
        """Receivers on whose messages ``drained`` still waits."""
        boxes = self._router._boxes
        return [agent for agent, box in boxes.items() if not box.idle() and not (migrate and box.leases)]

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
        order of arrival. Where the new topology has the edges of all hops that wait of a message from one
        holder, they stay in front of their receivers; otherwise they are routed anew together, from that
        holder to the members that these hops owed it to. A path may then lead through somebody who has it
        already: as a relay, because the new topology has no other.
        """
        router = self._router
        before = dict(router._record.dead)
        carried = [envelope for box in router._boxes.values() for envelope in box.pending()]
        carried.sort(key=attrgetter("order"))
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
            box.empty(self._new_lane(agent))
        for agent in table.roster.ids:
            if agent not in router._boxes:
                router._boxes[agent] = router._mailbox(agent, self._new_lane(agent))
        # Hops of one message from one holder came into being in one step: they are neighbours in the order of arrival.
        for _, same in groupby(_taken(carried), lambda envelope: (envelope.msg_id, envelope.sender, envelope.holder)):
            self._carry([(envelope, now + envelope.mark - lives[envelope.recipient]) for envelope in same])
        moved = router._record.migrated - moved
        self._release()
        dead = router._record.dead
        return moved, {
            reason.value: n - before.get(reason, 0) for reason, n in dead.items() if n > before.get(reason, 0)
        }

    def _carry(self, same: list[tuple[Envelope, float]]) -> None:
        """Move what waits of one message from one holder into the new epoch; with each hop its expiry."""
        router, record = self._router, self._router._record
        record.migrated += len(same)
        if all(self._may_stay(envelope) for envelope, _ in same):
            for envelope, _ in same:
                envelope.topo_epoch = router._epoch
                router._boxes[envelope.recipient].restore(envelope)
                record.tell("migrated", envelope, envelope.recipient, envelope.size)
            return
        # All of them together, or one member could get it both for itself and as a relay for another.
        owed = {t for envelope, _ in same for t in envelope.targets}
        targets = tuple(t for t in router._table.roster.ids if t in owed)
        for envelope, _ in same:
            if router._bytes is not None:
                router._bytes.add(router._boxes[envelope.recipient], -envelope.size)
            if set(envelope.targets).isdisjoint(targets):
                record.bury(envelope, DeadReason.RECIPIENT_GONE, envelope.recipient, envelope.size)
            else:
                record.tell("migrated", envelope, "", envelope.size, envelope.recipient)
                envelope.tally.admitted -= 1
        if targets:
            first, expires_ts = same[0]
            first.tally.admitted += 1
            router._resolve(Held(first, first.holder, targets, expires_ts, first.size, first.order))

    def _new_lane(self, agent: AgentID) -> Lane:
        """The lane that was prepared, or a new one."""
        router, lane = self._router, self._lanes.pop(agent, None)
        return router._new_lane(agent) if lane is None else lane

    def _may_stay(self, envelope: Envelope) -> bool:
        """Whether the new topology has the edge of a hop; one from outside the team needs none."""
        router, holder = self._router, envelope.holder
        if router._boxes[envelope.recipient].gone:
            return False
        return holder not in router._boxes or router._table.allows(holder, envelope.recipient)

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


def _taken(envelopes: list[Envelope]) -> Iterator[Envelope]:
    """Take them out one by one, so that one that is routed anew is gone before the next: a backlog is not there twice."""
    envelopes.reverse()
    while envelopes:
        yield envelopes.pop()
