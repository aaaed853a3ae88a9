"""The runtime of one episode, built from an arm: router, switch engine, coordinator, and what guards them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..catalog import Catalog
from ..errors import RuntimeFault
from ..events import Event, PressureChanged
from ..interfaces import Agent, AgentID, ChecksHealth, Message, Roster, Routes, Ruling, Topology, Warms
from ..ports import Clock
from ..runtime import (
    Coordinator,
    HealthPin,
    Router,
    RouteTable,
    SwitchEngine,
    SwitchResult,
    Throttle,
    TopologyHealthProbe,
)
from ..runtime.coordinator import RECONFIGURE
from ..runtime.health import Ready
from ..services import denial
from .arm import Arm

SHEDS = 10
"""Refusals within a second that ask for another topology: a throttled sender makes at most twenty attempts in that time."""


class Everyone:
    """A topology in which everybody may speak to everybody at once, under another one's name (free broadcast)."""

    def __init__(self, inner: Topology) -> None:
        self.name = inner.name

    def routes(self, roster: Roster) -> Routes:
        return Routes({a: tuple(b for b in roster.ids if b != a) for a in roster.ids})


def readiness(parts: Mapping[str, object]) -> dict[str, Ready]:
    """How a probe asks backends and tool servers, by name: those that can say how they are."""
    return {name: _asking(part) for name, part in parts.items() if isinstance(part, ChecksHealth)}


def _asking(part: ChecksHealth) -> Ready:
    async def ask() -> None:
        health = await part.health()
        if not health.ok:
            raise RuntimeFault(health.detail or "not ready")

    return ask


@dataclass
class Motion:
    """What moves the messages of one episode, and changes its topology."""

    router: Router
    coordinator: Coordinator
    pin: HealthPin | None = None
    probe: TopologyHealthProbe | None = None
    _relief_due: bool = field(default=False, init=False)

    def pressed(self, event: PressureChanged) -> None:
        """Remember that the router asks for another topology; ``forced`` answers it after the step."""
        self._relief_due |= event.rung == RECONFIGURE

    async def forced(self) -> SwitchResult | None:
        """The switch that health or pressure demands now, whatever the controller wishes; None when there is none."""
        held = await self.coordinator.hold()
        if held is not None or not self._relief_due:
            return held
        self._relief_due = False
        result = await self.coordinator.relieve(RECONFIGURE)
        return result if isinstance(result, SwitchResult) else None


def build_motion(
    arm: Arm,
    catalog: Catalog,
    roster: Roster,
    agents: Mapping[AgentID, Agent],
    start: str,
    *,
    clock: Clock,
    rng: random.Random,
    episode_id: str,
    on_event: Callable[[Event], None],
    services: Mapping[str, Ready] | None = None,
) -> Motion:
    """Everything in force from the first message on. ``services`` say whether backends and tools are ready.

    Raises ConfigError for a pin or a relief topology that is not in the arm's set.
    """
    make = catalog.make
    topologies: dict[str, Topology] = {name: make("topology", name) for name in arm.topologies}
    if arm.free_messages or len(roster.members) == 1:  # alone, every topology is the same
        topologies = {name: Everyone(topology) for name, topology in topologies.items()}
    policies = [make("policy", name) for name in arm.policies]

    def rule(message: Message) -> Ruling:
        denied = denial(policies, message)
        return Ruling(True) if denied is None else Ruling(False, f"{denied[0]}: {denied[1]}")

    def pressed(event: PressureChanged) -> None:
        on_event(event)
        motion.pressed(event)

    router = Router(
        RouteTable.compile(topologies[start], roster),
        lanes=make("lane", arm.lane),
        transport=make("transport", arm.transport),
        clock=clock,
        rng=rng,
        capacity=arm.lane_capacity,
        ttl_s=arm.message_ttl_s,
        on_event=on_event,
        allow=rule if policies else None,
        strict_pair_fifo=arm.strict_pair_fifo,
        dedup_cap=arm.dedup_cap,
        lane_bytes=arm.lane_bytes,
        total_bytes=arm.total_bytes,
        throttle=Throttle(sheds=SHEDS) if arm.throttle else None,
        on_pressure=pressed,
    )
    engine = SwitchEngine(
        router,
        topologies,
        clock=clock,
        deadline_ms=arm.quiesce_deadline_ms,
        on_busy=arm.on_busy,
        prepare={name: agent.warm for name, agent in agents.items() if isinstance(agent, Warms)},
        parallel_prepare=arm.parallel_prepare,
    )
    probe = pin = None
    if arm.prevalidate:
        backlog = 0 if arm.on_busy == "drain" else None
        probe = TopologyHealthProbe(
            router,
            topologies,
            clock=clock,
            agents=agents,
            services=services,
            max_backlog=backlog,
            episode_id=episode_id,
            on_event=on_event,
        )
    if arm.health_pin:
        pin = HealthPin(arm.topologies, clock=clock, episode_id=episode_id, on_event=on_event)
    coordinator = Coordinator(
        engine,
        dwell=arm.dwell,
        cooldown=arm.cooldown,
        episode_id=episode_id,
        probe=probe,
        pin=pin,
        relief=arm.relief,
    )
    motion = Motion(router, coordinator, pin, probe)
    return motion
