"""One life of a simulated team, from its start, or from what a crash left on disk, to its end or the next crash.

Everything here is the production code behind ports that misbehave: router, lanes, gate, engine, coordinator, probe,
pin, journal. The workload sends, handles, refuses and forgets; the model judges.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from ..errors import JournalError, PayloadError, UnknownNameError
from ..events import HealthPinned, MessageMoved
from ..interfaces import AgentID, Epoch, LaneDiscipline, Member, Message, MessagePriority, Roster, Topology, Transport
from ..ports import Ids
from ..runtime.coordinator import Coordinator, Deferred
from ..runtime.health import TopologyHealthProbe
from ..runtime.journal import Journal, JournalSwitchLog, SwitchState
from ..runtime.mailbox import Lease
from ..runtime.pinning import HealthPin
from ..runtime.pressure import RetryBudget
from ..runtime.router import Router
from ..runtime.routes import RouteTable
from ..runtime.switch import SwitchEngine, SwitchResult
from ..runtime.switchlog import SwitchRecord
from .chaos import ChaosClock, FaultyCarrier, FaultyTransport
from .disk import SimulatedCrash, SimulatedDisk
from .faults import Faults
from .history import HistoryChecker
from .invariants import Findings, RouterModel
from .spending import ROLES, Spending
from .trace import Trace

PRIORITIES = tuple(MessagePriority)
AUDIENCES = (*ROLES, "BROADCAST", "coder+critic")


@dataclass(frozen=True)
class Parts:
    """What is under test."""

    topologies: Mapping[str, Topology]
    lanes: LaneDiscipline
    transport: Transport


@dataclass(frozen=True)
class Character:
    """What one run is like, drawn from its seed: the same in all its lives."""

    roster: Roster
    first: str
    capacity: int
    ttl_s: float
    lease_s: float
    deadline_ms: float
    on_busy: str
    pace_s: float
    coordinated: bool
    parallel: bool
    consumers: int
    strict: bool
    dedup_cap: int
    lane_bytes: int | None
    retry_budget: bool

    @classmethod
    def draw(cls, rng: random.Random, topologies: Mapping[str, Topology], faults: Faults) -> Character:
        """A team of 2 to 7 and its settings."""
        size = rng.randint(2, 7)
        members = tuple(Member(AgentID(f"a{i}"), ROLES[i % len(ROLES)]) for i in range(size))
        return cls(
            roster=Roster(members, members[0].id),
            first=rng.choice(sorted(topologies)),
            capacity=rng.choice((3, 30, 10_000)),
            ttl_s=rng.choice((0.05, 0.3, 60.0)),
            lease_s=rng.choice((0.2, 600.0))
            if "never_acks" in faults.enabled or "acks_late" in faults.enabled
            else 600.0,
            deadline_ms=rng.choice((0.0, 5.0, 50.0, 200.0)),
            on_busy=rng.choice(("drain", "migrate")),
            pace_s=rng.choice((0.0, 0.005, 0.02)),
            coordinated=rng.random() < 0.5,
            parallel=rng.random() < 0.5,
            consumers=rng.choice((1, 1, 1, 2)),
            strict=rng.random() < 0.3,
            dedup_cap=rng.choice((0, 50_000)),
            lane_bytes=rng.choice((None, None, None, 200)),
            retry_budget=rng.random() < 0.2,
        )


class World:
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
        if not self.character.strict:  # where the order of pairs is strict a message may have to wait for another
            self._idle_in_vain = [agent for agent, n in self._idle.items() if n and self.model.queued(agent)]

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

    async def _consume(self, agent: AgentID) -> None:
        rng, router, faults = self.rng, self.router, self.faults
        while not router.closed:
            self._idle[agent] += 1
            try:
                async with asyncio.timeout(rng.random() * 0.05 if faults.strikes("cancel_lease", 0.1) else None):
                    lease = await router.lease(agent)
            except TimeoutError:
                self._idle[agent] -= 1
                await asyncio.sleep(rng.random() * 0.05)
                continue
            except UnknownNameError:
                lease = None
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

    # --- switches -------------------------------------------------------------------------------

    async def _warm(self) -> None:
        if self.faults.strikes("second_switch", 0.1):
            try:
                await self.engine.switch_to(self.character.first)
                self.blame("one_switch", "a second switch was let in while one is in flight")
            except RuntimeError:
                pass
        if self.faults.strikes("warm_up_fails", 0.05):
            raise RuntimeError("the model is not there")
        await asyncio.sleep(10.0 if self.faults.strikes("warm_up_hangs", 0.05) else 0.001 * self.rng.random())

    async def _ready(self) -> bool:
        if self.faults.strikes("sick_agent", 0.3):
            if self.rng.random() < 0.5:
                return False
            await asyncio.sleep(1.0)
        return True

    async def _decide(self) -> None:
        rng, faults = self.rng, self.faults
        while not self.stopping:
            await asyncio.sleep(rng.random() * 0.03 if rng.random() < 0.7 else 0.0)
            target = rng.choice(sorted(self.parts.topologies))
            if faults.strikes("unknown_target", 0.05):
                target = "nowhere"
            limit = rng.random() * 0.01 if faults.strikes("cancel_switch", 0.1) else None
            self.switches += 1
            try:
                async with asyncio.timeout(limit):
                    await (self._wish(target) if self.character.coordinated else self._order(target))
            except TimeoutError:
                self.cancelled += 1
        if self.pin is not None:
            await self._heal_pin(self.pin)

    async def _order(self, target: str) -> None:
        """A switch, straight at the engine."""
        roster = None
        if self.faults.strikes("agent_gone", 0.15):
            ids = self.character.roster.members
            gone = self.rng.choice(ids[1:])
            roster = Roster(tuple(m for m in ids if m != gone), self.character.roster.lead)
            if len(roster.members) < 2:
                roster = None
        elif self.rng.random() < 0.3 and "agent_gone" in self.faults.enabled:
            roster = self.character.roster
        before = self.model.epoch
        self._judge(target, before, await self.engine.switch_to(target, roster))

    async def _wish(self, target: str) -> None:
        """A wish, by way of the coordinator and the pin."""
        if self.pin is not None:
            slow = self.faults.strikes("controller_slow", 0.4)
            was, self._slow = self.pin.pinned, [*self._slow, slow][-5:]
            self.pin.decided(20.0 if slow else 1.0)
            if not was and self.pin.pinned != (len(self._slow) == 5 and any(self._slow)):
                self.blame("pin", f"pinned is {self.pin.pinned} after slow decisions {self._slow}")
            if was != self.pin.pinned:
                self._slow = []
            await self._hold()
        pinned = self.pin is not None and self.pin.pinned
        since_attempt, since_commit, attempted = self._since_attempt, self._since_commit, self._attempted
        before = self.model.epoch
        if self.rng.random() < 0.5:
            answer: SwitchResult | Deferred | None = await self.coordinator.request(target)
        else:
            answer = await self.coordinator.apply_deferred()
        if isinstance(answer, SwitchResult):
            if pinned:
                self.blame("pin", f"a wish for {answer.target} was carried out while pinned")
            if since_commit < 2 or (attempted and since_attempt < 2):
                self.blame("dwell", f"switched {since_attempt} steps after an attempt, {since_commit} after a commit")
            self._judge(answer.target, before, answer)
        elif isinstance(answer, Deferred):
            self.deferred += 1
            if pinned != (answer.reason == "pinned"):
                self.blame("pin", f"pinned is {pinned}, the wish was answered {answer.reason}")

    async def _hold(self) -> None:
        before = self.model.epoch
        result = await self.coordinator.hold()
        if result is not None:
            self._judge(result.target, before, result)
        held = self.pin is not None and self.pin.pinned and (result is None or result.ok)
        if held and self.router.table.name != self.pin.topology:
            self.blame("pin", f"pinned to {self.pin.topology}, {self.router.table.name} is in force")

    async def _heal_pin(self, pin: HealthPin) -> None:
        """Fast decisions unpin, after as many windows as were agreed."""
        for _ in range(10):
            if pin.pinned:
                await self._hold()
            for _ in range(5):
                pin.decided(1.0)
        if pin.pinned:
            self.blame("liveness", "ten healthy windows, and still pinned")

    def _judge(self, target: str, before: int, result: SwitchResult) -> None:
        name, epoch = self.engine.active()
        if result.ok:
            sound = result.epoch == before + 1 == epoch and result.target == target == name and not result.reason
        else:
            sound = result.epoch == before == epoch and bool(result.reason)
            self.reasons[str(result.reason)] = self.reasons.get(str(result.reason), 0) + 1
        if result.ok and self.character.on_busy == "drain" and result.stats.migrated:
            self.blame("result", f"{result.stats.migrated} messages were migrated by a switch that drains")
        if not sound:
            self.blame("result", f"{result} after epoch {before}, in force is {name} in epoch {epoch}")

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


class WatchedLog:
    """The switch log of a world: the model hears of every COMMIT, and the disk fails when faults say so."""

    def __init__(self, world: World, inner: JournalSwitchLog, disk: SimulatedDisk) -> None:
        self._world, self._inner, self._disk = world, inner, disk
        self._open: SwitchRecord | None = None

    def intent(self, record: SwitchRecord) -> None:
        """Raises OSError (ENOSPC), JournalError."""
        world, faults = self._world, self._world.faults
        if self._open is not None:
            world.blame("one_switch", f"a switch to {record.target} begins before that to {self._open.target} ended")
        if faults.strikes("disk_full", 0.1):
            self._break(errno.ENOSPC)
        elif faults.strikes("disk_error", 0.1):
            self._break(errno.EIO)
        elif faults.strikes("crash_io", 0.1):
            self._disk.stop_at(world.rng.randint(1, 4))
        self._write(self._inner.intent, record)
        self._open = record
        world.model.hasten(float("inf"))

    def _break(self, error: int) -> None:
        """Most often the disk has recovered when a switch is tried again; now and then it fails under the journal."""
        if self._world.rng.random() < 0.7:
            raise OSError(error, os.strerror(error))
        self._disk.fail_at(self._world.rng.randint(1, 4), error, forever=self._world.rng.random() < 0.5)

    def _write(self, write: Callable[[SwitchRecord], None], record: SwitchRecord) -> None:
        try:
            write(record)
        except SimulatedCrash:
            self._world.died()
            raise

    def commit(self, record: SwitchRecord) -> None:
        """Raises OSError (EIO), JournalError."""
        world = self._world
        state = SwitchState(record.epoch, record.target, record.roster)
        if world.alive:
            world.in_doubt = state
        try:
            self._write(self._inner.commit, record)
        except JournalError as error:
            if world.alive and not error.in_doubt:
                world.in_doubt = None
            raise
        if not world.alive:
            return
        world.in_doubt = None
        world.committed = state
        self._ended()
        world.model.committed(record.roster, world.parts.topologies[record.target], record.epoch)
        world._since_commit = 0

    def abort(self, record: SwitchRecord, reason: str) -> None:
        """Raises JournalError."""
        self._ended()
        self._write(lambda ended: self._inner.abort(ended, reason), record)

    def _ended(self) -> None:
        world = self._world
        self._open = None
        world._since_attempt = 0
        world._attempted = True
        world.model.hasten(world.clock.monotonic())
