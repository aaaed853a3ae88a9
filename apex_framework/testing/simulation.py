"""Random traffic and random switches over a real router in virtual time, judged by the history checker."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..interfaces import AgentID, LaneDiscipline, Member, Message, Roster, Topology, Transport
from ..ports import Ids, LoopClock, derive_seed
from ..runtime.gate import EpochGate
from ..runtime.router import Router
from ..runtime.routes import RouteTable
from ..runtime.switch import CommitRecord, SwitchEngine
from .faults import plant
from .history import HistoryChecker
from .virtual_time import run

ROLES = ("planner", "coder", "runner", "critic", "summarizer")


@dataclass
class Outcome:
    """What one or several simulated episodes did, and what was wrong."""

    switches: int = 0
    committed: int = 0
    aborted: int = 0
    cancelled: int = 0
    sent: int = 0
    delivered: int = 0
    migrated: int = 0
    unbalanced: int = 0
    violations: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Count another episode in."""
        for name in ("switches", "committed", "aborted", "cancelled", "sent", "delivered", "migrated", "unbalanced"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.violations.update(other.violations)
        self.examples = (self.examples + other.examples)[:10]


@dataclass
class Simulation:
    """One team under random load: 2 to 7 agents, random audiences, handling times, failures, deadlines and aborts."""

    seed: int
    switches: int
    topologies: Mapping[str, Topology]
    lanes: LaneDiscipline
    transport: Transport
    bug: type[EpochGate] | None = None

    def run(self) -> Outcome:
        """Simulate; the same seed gives the same outcome."""
        return run(self._episode(), seed=self.seed, shuffle=True)

    async def _episode(self) -> Outcome:
        self._rng = rng = random.Random(derive_seed("simulation", self.seed))
        self._ids = Ids("m")
        self._outcome = Outcome()
        self._stopping = False
        size = rng.randint(2, 7)
        members = tuple(Member(AgentID(f"a{i}"), ROLES[i % len(ROLES)]) for i in range(size))
        self._roster = Roster(members, members[0].id)
        checker = HistoryChecker(self._roster)
        self._clock = clock = LoopClock(asyncio.get_running_loop())
        first = self.topologies[rng.choice(sorted(self.topologies))]
        self._router = router = Router(
            RouteTable.compile(first, self._roster),
            lanes=self.lanes,
            transport=self.transport,
            clock=clock,
            rng=random.Random(rng.random()),
            capacity=rng.choice((3, 30, 10_000)),
            ttl_s=rng.choice((0.3, 60.0)),
            on_event=checker,
        )
        engine = SwitchEngine(
            router,
            self.topologies,
            clock=clock,
            deadline_ms=rng.choice((0.0, 5.0, 50.0, 200.0)),
            on_busy=rng.choice(("drain", "migrate")),
            commit_record=self._journal,
        )
        if self.bug is not None:
            plant(engine, self.bug)
        self._pace = rng.choice((0.0, 0.005, 0.02))
        async with asyncio.TaskGroup() as group:
            consumers = [group.create_task(self._consume(member.id)) for member in members]
            senders = [group.create_task(self._send()) for _ in range(2)]
            await self._switch(engine)
            self._stopping = True
            await asyncio.wait(senders)
            if rng.random() < 0.7:
                await self._settle()
            router.close_episode()
            await asyncio.wait(consumers)
        self._audit()
        checker.finish()
        outcome = self._outcome
        outcome.sent, outcome.delivered = checker.sent, checker.delivered
        outcome.migrated = router.stats.migrated
        outcome.violations, outcome.examples = checker.violations, checker.examples
        return outcome

    def _journal(self, record: CommitRecord) -> None:
        if self._rng.random() < 0.1:
            raise OSError("no space left on device")

    def _audit(self) -> None:
        self._outcome.unbalanced += not self._router.stats.balanced

    def _message(self, origin: str) -> None:
        rng = self._rng
        choices = [*self._roster.ids, *ROLES, "BROADCAST", "coder+critic"]
        audience = rng.choice(choices)
        message = Message(
            "sim", self._ids.next(), AgentID(origin), AgentID(audience), self._router.epoch, {"n": rng.random()}
        )
        message.audience = audience
        self._router.send(message)

    async def _send(self) -> None:
        rng = self._rng
        while not self._stopping:
            for _ in range(rng.randint(1, 4)):
                self._message(rng.choice(self._roster.ids))
            if rng.random() < 0.1:
                self._router.inject(
                    Message(
                        "sim", self._ids.next(), AgentID("user"), rng.choice(self._roster.ids), self._router.epoch, {}
                    )
                )
            await asyncio.sleep(rng.random() * 0.03)

    async def _consume(self, agent: AgentID) -> None:
        rng, router = self._rng, self._router
        while True:
            try:
                async with asyncio.timeout(rng.random() if rng.random() < 0.05 else None):
                    lease = await router.lease(agent)
            except TimeoutError:
                continue
            if lease is None:
                return
            if rng.random() < 0.5:
                await asyncio.sleep(rng.random() * self._pace)
            if rng.random() < 0.1:
                router.nack(lease, "simulated")
                continue
            if rng.random() < 0.2 and not self._stopping:
                self._message(agent)
            router.ack(lease)

    async def _switch(self, engine: SwitchEngine) -> None:
        rng, outcome = self._rng, self._outcome
        for _ in range(self.switches):
            await asyncio.sleep(rng.random() * 0.02)
            target = rng.choice([*sorted(self.topologies)] * 5 + ["nowhere"])
            try:
                async with asyncio.timeout(rng.random() * 0.01 if rng.random() < 0.1 else None):
                    result = await engine.switch_to(target)
            except TimeoutError:
                outcome.cancelled += 1
            else:
                outcome.committed += result.ok
                outcome.aborted += not result.ok
            outcome.switches += 1
            self._audit()

    async def _settle(self) -> None:
        """Wait until every message has ended by itself; a message that was lost never does."""
        for _ in range(1000):
            stats = self._router.stats
            if not stats.waiting + stats.leased + stats.backoff:
                return
            await asyncio.sleep(1.0)


def simulate(
    switches: int,
    *,
    topologies: Mapping[str, Topology],
    lanes: LaneDiscipline,
    transport: Transport,
    seed: int = 0,
    per_episode: int = 100,
    bug: type[EpochGate] | None = None,
) -> Outcome:
    """So many random switches, spread over episodes of ``per_episode`` with seeds ``seed``, ``seed + 1``, …"""
    total = Outcome()
    while total.switches < switches:
        count = min(per_episode, switches - total.switches)
        total.add(Simulation(seed, count, topologies, lanes, transport, bug).run())
        seed += 1
    return total
