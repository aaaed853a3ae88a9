"""One life of a simulated team, from its start, or from what a crash left on disk, to its end or the next crash.

Everything here is the production code behind ports that misbehave: router, lanes, gate, engine, coordinator, probe,
pin, journal. The workload sends, handles, refuses and forgets; the model judges.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from ..errors import PayloadError, UnknownNameError
from ..events import HealthPinned, MessageMoved
from ..interfaces import AgentID, Epoch, Message, MessagePriority
from ..ports import Ids
from ..runtime.coordinator import Coordinator
from ..runtime.health import TopologyHealthProbe
from ..runtime.journal import Journal, JournalSwitchLog, SwitchState
from ..runtime.mailbox import Lease
from ..runtime.pinning import HealthPin
from ..runtime.pressure import RetryBudget
from ..runtime.router import Router
from ..runtime.routes import RouteTable
from ..runtime.switch import SwitchEngine
from .chaos import ChaosClock, FaultyCarrier, FaultyTransport
from .character import Character, Parts
from .disk import SimulatedDisk
from .faults import Faults
from .history import HistoryChecker
from .invariants import Findings
from .router_model import RouterModel
from .spending import ROLES, Spending
from .switching import Switching
from .trace import Trace
from .watched_log import WatchedLog

PRIORITIES = tuple(MessagePriority)
AUDIENCES = (*ROLES, "BROADCAST", "coder+critic")


class World(Switching):
    """One life. ``run`` works until it is told to stop; ``check`` is called between its callbacks."""

    def __init__(
        self,
        parts: Parts,
        character: Character,
        faults: Faults,
        rng: random.Random,
        clock: ChaosClock,
        findings: Findings,
        trace: Trace,
        spending: Spending,
        journal: Journal,
        disk: SimulatedDisk,
        died: Callable[[], None],
        found: SwitchState | None,
        ids: Ids,
    ) -> None:
        self.alive = True
        self.stopping = False
        self.parts, self.character, self.faults, self.rng = parts, character, faults, rng
        self.clock, self.findings, self.trace, self.spending = clock, findings, trace, spending
        self.journal, self.disk = journal, disk
        self.committed: SwitchState | None = found
        """What the last COMMIT that was acknowledged brought into force."""
        self.in_doubt: SwitchState | None = None
        """What a COMMIT that was cut off in the middle would have."""
        self.switches = self.cancelled = self.deferred = 0
        self.reasons: dict[str, int] = {}
        self.died = died
        self._ids = ids
        self._sent: dict[str, tuple[float, str]] = {}
        self._since_commit = self._since_attempt = 0
        self._attempted = False
        self._idle: Counter[str] = Counter()
        """Consumers that wait for a message."""
        self._waits: dict[str, list[asyncio.Timeout]] = {}
        self._idle_in_vain: list[str] = []
        self._now = 0.0
        self._slow: list[bool] = []
        roster = character.roster if found is None else found.roster
        name = character.first if found is None else found.topology
        epoch = 0 if found is None else found.epoch
        topology = parts.topologies[name]
        self.model = RouterModel(
            findings,
            roster,
            topology,
            priority=lambda msg_id: self._sent[msg_id][1],
            epoch=epoch,
            capacity=character.capacity,
            ttl_s=character.ttl_s,
            lease_s=character.lease_s,
            remembers=character.dedup_cap > 0,
            lane_bytes=character.lane_bytes,
        )
        whole = not faults.enabled & {"duplicate", "agent_gone"}
        self.history = HistoryChecker(roster, character.strict) if whole else None
        self.router = Router(
            RouteTable.compile(topology, roster),
            lanes=parts.lanes,
            transport=FaultyTransport(parts.transport, faults),
            clock=clock,
            rng=random.Random(rng.random()),
            capacity=character.capacity,
            ttl_s=character.ttl_s,
            lease_s=character.lease_s,
            on_event=self._heard,
            strict_pair_fifo=character.strict,
            dedup_cap=character.dedup_cap,
            lane_bytes=character.lane_bytes,
            retry_budget=RetryBudget() if character.retry_budget else None,
        )
        self.router._epoch = self.router._admit = Epoch(epoch)
        self.engine = SwitchEngine(
            self.router,
            parts.topologies,
            clock=clock,
            deadline_ms=character.deadline_ms,
            on_busy=character.on_busy,
            prepare={"calm": self._warm, "hasty": self._warm},
            prepare_deadline_ms=100.0,
            parallel_prepare=character.parallel,
            log=WatchedLog(self, JournalSwitchLog(journal), disk),
        )
        self.pin = self._pin() if "controller_slow" in faults.enabled and "chain" in parts.topologies else None
        probe = None
        if "sick_agent" in faults.enabled:
            probe = TopologyHealthProbe(
                self.router, parts.topologies, clock=clock, services={"model": self._ready}, max_waiting=20_000
            )
        self.coordinator = Coordinator(self.engine, probe=probe, pin=self.pin)
        self.carrier = FaultyCarrier(self.router.send, faults, rng)

    def _pin(self) -> HealthPin:
        return HealthPin(self.parts.topologies, clock=self.clock, window=5, healthy_windows=2, on_event=self._pinned)

    def _pinned(self, event: HealthPinned) -> None:
        self.trace.add(f"pinned {event.pinned} {event.reason}")

    # --- what is seen ---------------------------------------------------------------------------

    def _heard(self, event: MessageMoved) -> None:
        if self.alive:
            self.trace.event(event)
            self.model(event)
            if self.history is not None:
                self.history(event)

    def check(self, now: float) -> None:
        """After every callback."""
        if now > self._now and self._idle_in_vain:
            self.blame("idle", f"messages wait for {self._idle_in_vain}, who waits for messages")
        self._now = now
        self.model.step(self.router.epoch, self.router.stats)
        self.spending.check()
        # Where the order of pairs is strict a message may have to wait for another; after a leap timers are late.
        excused = self.character.strict or self.clock.leapt
        idle = () if excused else self._idle.items()
        self._idle_in_vain = [agent for agent, n in idle if n and self.model.queued(agent)]

    def blame(self, kind: str, what: str) -> None:
        """Count a violation."""
        self.findings.blame(kind, what)

    # --- the team -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until ``stopping``; then let everything finish, and end the episode."""
        async with asyncio.TaskGroup() as group:
            for member in self.character.roster.members:
                for _ in range(self.character.consumers):
                    group.create_task(self._consume(member.id))
            work = [group.create_task(self._send()) for _ in range(2)]
            work += [group.create_task(self._spend(role)) for role in ROLES[:3]]
            work.append(group.create_task(self._decide()))
            await asyncio.wait(work)
            if self.rng.random() < 0.7:
                await self._settle()
            self.router.close_episode()

    async def _send(self) -> None:
        rng, ids = self.rng, self.character.roster.ids
        while not self.stopping:
            for _ in range(rng.randint(1, 3)):
                self._message(rng.choice(ids))
            if rng.random() < 0.1:
                with suppress(PayloadError):  # broken on its way in
                    self.router.inject(self._new("user", rng.choice(ids)))
            await asyncio.sleep(rng.random() * 0.03)

    def _new(self, origin: str, audience: str) -> Message:
        rng = self.rng
        number, priority = rng.random(), rng.choice(PRIORITIES)
        poison = self.faults.strikes("poison", 0.02)
        message = Message(
            "sim",
            self._ids.next(),
            AgentID(origin),
            AgentID(audience),
            self.router.epoch,
            {"n": number, "poison": poison},
            priority,
            created_ts=self.clock.monotonic(),
        )
        self._sent[message.msg_id] = (number, priority)
        return message

    def _message(self, origin: str) -> None:
        audience = self.rng.choice((*self.character.roster.ids, *AUDIENCES))
        self.carrier.carry(replace(self._new(origin, audience), audience=audience))
        if self._waits and self.faults.strikes("cancel_lease", 0.1):
            # Just now, when what was sent may have woken somebody: both ends of that race have to be met.
            agent = self.rng.choice(list(self._waits))
            limit = self._waits.pop(agent)[0]
            if not limit.expired():
                limit.reschedule(0.0)

    async def _consume(self, agent: AgentID) -> None:
        rng, router, faults = self.rng, self.router, self.faults
        while not router.closed:
            self._idle[agent] += 1
            try:
                async with asyncio.timeout(
                    rng.random() * 0.05 if faults.strikes("cancel_lease", 0.1) else None
                ) as limit:
                    self._waits[agent] = [*self._waits.get(agent, ()), limit]
                    lease = await router.lease(agent)
            except TimeoutError:
                self._idle[agent] -= 1
                await asyncio.sleep(rng.random() * 0.05)
                continue
            except UnknownNameError:
                lease = None
            finally:
                self._waits.pop(agent, None)  # of those who wait together only the first is worth a race
            self._idle[agent] -= 1
            if lease is None:
                await asyncio.sleep(10.0 if self.stopping else 0.05)
                continue
            await self._handle(agent, lease)

    async def _handle(self, agent: AgentID, lease: Lease) -> None:
        rng, router, faults, message = self.rng, self.router, self.faults, lease.message
        hop = message.number
        self.model.received(message.msg_id, hop, agent, message.redelivered, self.clock.monotonic())
        nacks = self.model.nacks(hop)
        if message.payload["n"] != self._sent[message.msg_id][0]:
            self.blame("payload", f"{message.msg_id} comes to {agent} with {message.payload}")
        if message.priority != self._sent[message.msg_id][1]:
            self.blame("payload", f"{message.msg_id} comes to {agent} as {message.priority}")
        if faults.strikes("never_acks", 0.03):
            return
        if faults.strikes("acks_late", 0.03):
            asyncio.get_running_loop().call_later(self.character.lease_s * 1.5, self._ack, lease, hop, nacks)
            return
        if rng.random() < 0.5:
            pause = rng.random() * self.character.pace_s
            await asyncio.sleep(pause * 100 if faults.strikes("slow_consumer", 0.03) else pause)
        self.coordinator.step()
        self._since_attempt += 1
        self._since_commit += 1
        expected = self.model.in_hands(hop, nacks)
        if (message.payload["poison"] and not lease.is_relay) or faults.strikes("exception", 0.08):
            if router.nack(lease, "simulated") != expected:
                self.blame("lease", f"nack of {message.msg_id} by {agent}: not {expected}")
            return
        if rng.random() < 0.2 and not self.stopping:
            self._message(agent)
        self._ack(lease, hop, nacks)

    def _ack(self, lease: Lease, hop: int, nacks: int) -> None:
        expected = self.model.in_hands(hop, nacks)
        if self.alive and self.router.ack(lease) != expected:
            self.blame("lease", f"ack of {lease.message.msg_id} by {lease.agent}: not {expected}")

    async def _spend(self, role: str) -> None:
        while not self.stopping:
            await self.spending.call(role)
            await asyncio.sleep(self.rng.random() * 0.1)

    # --- the end --------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Wait until every message has ended by itself; one that was lost never does."""
        patience = 6 * (self.character.lease_s + self.character.ttl_s) + 60
        pause, slept = 0.25, 0.0
        while self.model.open:
            if slept > patience:
                self.blame("liveness", f"{self.model.open} messages have no end after {slept} s without faults")
                return
            await asyncio.sleep(pause)
            slept += pause
            pause = min(2 * pause, 30.0)

    def finish(self) -> None:
        """After the end."""
        if self.carrier.smuggled:
            self.blame("payload", f"{self.carrier.smuggled} messages above 512 KB were taken")
        if self.model.open:
            self.blame("lost", f"{self.model.open} messages have no end")
        if self.history is not None:
            self.history.finish()
            self.findings.violations.update(self.history.violations)
            self.findings.examples += self.history.examples[:5]
