"""One trial: a team under a profile's load over the real router, coordinator and switch engine, in virtual or real time.

Every agent is a sender and a receiver. As a sender it is an open source: its messages come into being when they do,
whether or not earlier ones were admitted, and latency counts from then (no coordinated omission). Who is addressed is
drawn evenly. As a receiver it leases one message at a time, takes as long as the profile says, and acknowledges; what it
only relays it overhears in no time, as in a session. A controller asks for star, chain and flat in turn; a wish that has
to wait is tried again after every handled message, as in an episode.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..events import PressureChanged
from ..interfaces import AgentID, LaneDiscipline, Member, Message, MessagePriority, Roster, Topology, Transport
from ..ports import Ids, LoopClock
from ..runtime import (
    Coordinator,
    Deferred,
    HealthCache,
    Router,
    RouteTable,
    SwitchEngine,
    SwitchLog,
    SwitchResult,
    TopologyHealthProbe,
)
from ..runtime.pressure import Throttle
from ..timeloop import VirtualTimeLoop
from .fates import OPEN, Fates
from .flows import Flow
from .setting import Setting as Setting  # re-exported: a trial is made of parts and a setting
from .setting import agents, offers, sick, source, works

TOPOLOGIES = ("star", "chain", "flat")
ROLES = ("planner", "coder", "runner", "critic", "summarizer")
PATIENCE_S = 600.0
"""Longest time in which a trial works off what is open at its end."""


@dataclass(frozen=True)
class Parts:
    """Plugins that a trial is made of."""

    topologies: Mapping[str, Topology]
    lanes: LaneDiscipline
    transport: Transport

    @classmethod
    def built_in(cls, lane: str) -> Parts:
        """The built-in ones with a lane discipline by name. Raises UnknownNameError."""
        from ..plugins import load_plugins

        catalog = load_plugins(environ={"APEX_PLUGINS": ""}).catalog  # nobody else's plugin is measured
        topologies = {name: catalog.make("topology", name) for name in TOPOLOGIES}
        return cls(topologies, catalog.make("lane", lane), catalog.make("transport", "inproc"))


@dataclass
class Tally:
    """What a trial did."""

    fates: Fates = field(default_factory=Fates)
    offered_s: float = 0.0
    """For so long messages were offered."""
    seconds: float = 0.0
    """From the first message to the last one's end."""
    occupancy: list[float] = field(default_factory=list)
    """The fullest lane's share of its capacity, at every arrival."""
    switches: list[SwitchResult] = field(default_factory=list)
    deferred: Counter[str] = field(default_factory=Counter)
    """Wishes that had to wait, by reason."""
    rungs: Counter[str] = field(default_factory=Counter)
    """Changes of the router's pressure, by rung."""
    handled_in_time: int = 0
    """Messages handled while messages were still offered."""
    sick: tuple[str, ...] = ()

    @property
    def committed(self) -> int:
        """Switches that took place."""
        return sum(result.ok for result in self.switches)

    @property
    def aborts(self) -> Counter[str]:
        """Aborted switches by reason."""
        return Counter(str(result.reason) for result in self.switches if not result.ok)


class Trial:
    """One setting, one seed; ``log`` keeps its switches."""

    def __init__(self, setting: Setting, parts: Parts, *, log: SwitchLog | None = None) -> None:
        self.setting, self.parts = setting, parts
        self._switch_log = log
        self.tally = Tally()
        self._ids = Ids("m")

    async def run(self) -> Tally:
        """Offer messages for the profile's time, work off what is open, and return what became of them.

        Raises AssertionError when the router's counters do not add up, or it refuses for a reason other than load.
        """
        setting, profile = self.setting, self.setting.profile
        members = tuple(Member(agent, ROLES[i % len(ROLES)]) for i, agent in enumerate(agents(profile)))
        self._roster = roster = Roster(members, members[0].id)
        loop = asyncio.get_running_loop()
        self._now, self._begun = loop.time, loop.time()
        self._until = self.tally.offered_s = setting.seconds or profile.seconds
        self.tally.sick = sick(setting, roster.ids)
        self._agents = {agent: Emulated(works(setting, agent, self.tally.sick)) for agent in roster.ids}
        self._router = self._routed(LoopClock(loop))
        self._coordinator = self._coordinated(LoopClock(loop))
        self._stepped = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                self._start = group.create_task
                consumers = [group.create_task(self._consume(agent)) for agent in roster.ids]
                senders = [group.create_task(self._send(agent)) for agent in roster.ids]
                control = [group.create_task(work()) for work in (self._wish, self._retry) if setting.switching]
                await asyncio.wait(senders)
                await self._work_off()
                self.tally.seconds = self._now() - self._begun
                for task in control:
                    task.cancel()
                self._router.close_episode()
                await asyncio.wait(consumers)
        except ExceptionGroup as group_error:  # the first fault is the cause, the others its company
            raise group_error.exceptions[0] from None
        self._router.audit()
        return self.tally

    def _routed(self, clock: LoopClock) -> Router:
        return Router(
            RouteTable.compile(self.parts.topologies[TOPOLOGIES[0]], self._roster),
            lanes=self.parts.lanes,
            transport=self.parts.transport,
            clock=clock,
            rng=self._rng("router"),
            capacity=self.setting.capacity or self.setting.profile.lane_capacity,
            on_event=self.tally.fates,
            throttle=Throttle() if self.setting.throttle else None,
            on_pressure=self._pressed,
        )

    def _coordinated(self, clock: LoopClock) -> Coordinator:
        setting = self.setting
        engine = SwitchEngine(
            self._router,
            self.parts.topologies,
            clock=clock,
            deadline_ms=setting.deadline_ms,
            on_busy=setting.on_busy,
            prepare={name: agent.warm for name, agent in self._agents.items()} if setting.warm else (),
            prepare_deadline_ms=50.0,
            log=self._switch_log,
        )
        probe = None
        if setting.probe:
            probe = TopologyHealthProbe(
                self._router,
                self.parts.topologies,
                clock=clock,
                agents=self._agents,
                cache=HealthCache(clock, setting.cache_s),
                max_backlog=0 if setting.on_busy == "drain" else None,
            )
        return Coordinator(engine, probe=probe, relief=setting.relief)

    def _pressed(self, event: PressureChanged) -> None:
        self.tally.rungs[event.rung] += 1
        if self.setting.switching and self.setting.relief:
            self._start(self._relieve(event.rung))

    async def _relieve(self, rung: str) -> None:
        self._count(await self._coordinator.relieve(rung))

    def _rng(self, *purpose: object) -> random.Random:
        return source(self.setting, *purpose)

    async def _send(self, sender: AgentID) -> None:
        setting, fates = self.setting, self.tally.fates
        flows: dict[tuple[AgentID, str], Flow] = {}
        throttle = setting.profile.throttle if setting.throttle else None
        for at, service, receiver in offers(setting, sender, self._roster.ids):
            await asyncio.sleep(max(0.0, self._begun + at - self._now()))
            message = Message("trial", self._ids.next(), sender, receiver, self._router.epoch, {"text": "x"})
            message.priority, message.audience, message.created_ts = MessagePriority(service), receiver, self._now()
            fates.offered(message.msg_id, service, message.created_ts)
            self.tally.occupancy.append(self._router.occupancy())
            flow = flows.get((receiver, service))
            if flow is None:
                backoff = self._rng("backoff", sender, receiver, service)
                flow = flows[receiver, service] = Flow(self._router, fates, throttle, backoff, self._start)
            flow.offer(message)

    async def _consume(self, agent: AgentID) -> None:
        setting, router, emulated = self.setting, self._router, self._agents[agent]
        while (lease := await router.lease(agent)) is not None:
            if lease.is_relay:
                router.ack(lease)
                continue
            late = await emulated.work()
            if late:
                router.nack(lease, "backend_timeout")
            elif router.ack(lease):
                self.tally.handled_in_time += self._now() - self._begun < self._until
            self._coordinator.step()
            self._stepped.set()
            if setting.blocked_ms:
                _hold_the_loop(setting.blocked_ms / 1000)

    async def _wish(self) -> None:
        """Ask for the next topology, again and again."""
        turn = 0
        while True:
            await asyncio.sleep((self.setting.profile.switch_every_ms + self.setting.decide_ms) / 1000)
            turn += 1
            self._count(await self._coordinator.request(TOPOLOGIES[turn % len(TOPOLOGIES)]))

    async def _retry(self) -> None:
        """After a step, carry out a wish that had to wait."""
        while True:
            await self._stepped.wait()
            self._stepped.clear()
            self._count(await self._coordinator.apply_deferred())

    def _count(self, answer: SwitchResult | Deferred | None) -> None:
        if isinstance(answer, Deferred):
            self.tally.deferred[answer.reason] += 1
        elif answer is not None:
            self.tally.switches.append(answer)

    async def _work_off(self) -> None:
        last = self._now() + PATIENCE_S
        fates = self.tally.fates.by_id
        while any(fate.end == OPEN for fate in fates.values()) and self._now() < last:  # noqa: ASYNC110 - simplest
            await asyncio.sleep(0.1)


class Emulated:
    """An agent that takes its time; while it is stuck it answers nobody."""

    def __init__(self, works: Iterator[tuple[float, float, bool]]) -> None:
        self._works = works
        self._free = asyncio.Event()
        self._free.set()

    async def work(self) -> bool:
        """Handle one message in its drawn time; whether the backend was late."""
        stuck_ms, taken_ms, late = next(self._works)
        if stuck_ms:
            self._free.clear()
            await asyncio.sleep(stuck_ms / 1000)
            self._free.set()
        await asyncio.sleep(taken_ms / 1000)
        return late

    async def ping(self) -> None:
        """Answer as soon as it is not stuck."""
        await self._free.wait()

    async def warm(self) -> None:
        """Be ready for the next epoch as soon as it is not stuck."""
        await self._free.wait()


def _hold_the_loop(seconds: float) -> None:
    """Block everybody: on a virtual loop its time goes on meanwhile, as the machine's does."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualTimeLoop):
        loop.jump(seconds)
    else:
        time.sleep(seconds)
