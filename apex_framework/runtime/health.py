"""Health: what is known of members and services, and the probe of a topology before a switch to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from ..events import TopologyProbed
from ..interfaces.message import AgentID
from ..interfaces.team import Pings
from ..interfaces.topology import Roster, Topology
from ..ports import Clock
from .patience import Ended, Patience, Work
from .router import Router

Ready = Callable[[], Awaitable[object]]
"""Asks a model backend or a tool whether it is ready: it raises, or returns False, when it is not."""


@dataclass(frozen=True, slots=True)
class AgentHealth:
    """When a member or a service last answered, in nanoseconds of the monotonic clock, how fast, and how much waited."""

    last_ok_ns: int
    last_latency_ms: float
    queue_depth: int = 0


class HealthCache:
    """Good answers, each believed for ``ttl_s`` seconds. What is not well is not kept: it is asked again."""

    def __init__(self, clock: Clock, ttl_s: float = 10.0) -> None:
        self._now = clock.monotonic
        self._ttl_s = ttl_s
        self._known: dict[str, AgentHealth] = {}
        self.hits = 0
        """Questions that an answer young enough was there for."""
        self.misses = 0

    def get(self, name: str) -> AgentHealth | None:
        """What is known of a member or service; None when that is nothing, or too old."""
        age = self.age_s(name)
        # An age below zero is a clock that went back: such an answer may be of any age.
        if age is None or not 0 <= age < self._ttl_s:
            self._known.pop(name, None)
            self.misses += 1
            return None
        self.hits += 1
        return self._known[name]

    def put(self, name: str, health: AgentHealth) -> None:
        """Remember a good answer."""
        self._known[name] = health

    def forget(self, name: str) -> None:
        """It is not well any more."""
        self._known.pop(name, None)

    def age_s(self, name: str) -> float | None:
        """Seconds since it last answered (``agent_health_age_s``); None for who never did, or not lately."""
        known = self._known.get(name)
        return None if known is None else self._now() - known.last_ok_ns / 1e9

    def ages(self) -> dict[str, float]:
        """``age_s`` of everyone who is known."""
        return {name: self._now() - known.last_ok_ns / 1e9 for name, known in self._known.items()}


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Whether a topology can be switched to; ``details`` says by member or service what is wrong."""

    ok: bool
    details: Mapping[str, str] = field(default_factory=dict)
    elapsed_ms: float = 0.0


class TopologyHealthProbe:
    """Examines a target before a switch: the members it needs, the router, model backends and tools.

    Members that implement Pings, and services, are asked all at once; one that answered within the cache's
    time is not asked again, unless it has had a message in its hands for longer than ``doubt_s``: what it said
    before says little then. A member that cannot be asked is judged by the message in its hands: it is degraded
    when it has had it for longer than ``max_held_s``. Lanes are looked at every time: no member
    of the team may have more than ``max_waiting`` messages waiting and, where the switch will not take them
    along (``on_busy = drain``), no more than ``max_backlog`` behind the one in its hands (None: any number).
    """

    def __init__(
        self,
        router: Router,
        topologies: Mapping[str, Topology],
        *,
        clock: Clock,
        agents: Mapping[AgentID, object] | None = None,
        services: Mapping[str, Ready] | None = None,
        cache: HealthCache | None = None,
        doubt_s: float = 0.05,
        max_waiting: int = 1000,
        max_held_s: float = 60.0,
        max_backlog: int | None = None,
        episode_id: str = "",
        on_event: Callable[[TopologyProbed], None] | None = None,
    ) -> None:
        if taken := set(services or ()) & set(router.table.roster.ids):
            raise ValueError(f"services are named like members: {', '.join(sorted(taken))}")
        self.cache = HealthCache(clock) if cache is None else cache
        self.passed = self.failed = 0
        """Probes by result (``topology_prevalidate_total``)."""
        self._router, self._topologies = router, topologies
        self._now = clock.monotonic
        self._patience = Patience(clock)
        self._pings = {name: agent.ping for name, agent in (agents or {}).items() if isinstance(agent, Pings)}
        self._services = services or {}
        self._doubt_s = doubt_s
        self._max_waiting, self._max_held_s, self._max_backlog = max_waiting, max_held_s, max_backlog
        self._episode_id, self._on_event = episode_id, on_event

    async def validate(self, target: str, timeout_ms: float = 20.0) -> ProbeResult:
        """Examine a target within ``timeout_ms``, whatever those who are asked do. Raises nothing of theirs.

        Who holds the event loop cannot be interrupted: the result then comes as soon as it lets go, and
        names it.
        """
        started = self._now()
        details: dict[str, str] = {}
        members = self._needed(target, details)
        self._look(members, details)
        questions = self._questions(members)
        if questions:
            with self._patience.begin(questions, timeout_ms / 1000) as batch:
                for name, end in (await batch.ended()).items():
                    self._note(name, end, details)
        elapsed_ms = (self._now() - started) * 1000
        result = ProbeResult(not details, {name: details[name] for name in sorted(details)}, elapsed_ms)
        self.passed += result.ok
        self.failed += not result.ok
        if self._on_event is not None:
            self._on_event(TopologyProbed(self._episode_id, target, result.ok, elapsed_ms, result.details))
        return result

    def _needed(self, target: str, details: dict[str, str]) -> tuple[AgentID, ...]:
        """Members that the target has an edge at, and the lead, in roster order."""
        roster: Roster = self._router.table.roster
        topology = self._topologies.get(target)
        if topology is None:
            details[f"topology {target}"] = "unknown"
            return ()
        try:
            edges = topology.routes(roster).edges
        except Exception as error:  # noqa: BLE001 - a plugin's edge: a topology that raises cannot be switched to
            details[f"topology {target}"] = f"{type(error).__name__}: {error}"
            return ()
        used = {roster.lead}.union(*edges.values(), (holder for holder, receivers in edges.items() if receivers))
        return tuple(agent for agent in roster.ids if agent in used)

    def _look(self, members: tuple[AgentID, ...], details: dict[str, str]) -> None:
        """Judge lanes, and those who cannot be asked, by what the router knows."""
        now = self._now()
        for agent, box in self._router._boxes.items():
            waiting = self._router.waiting(agent)
            held_s = now - box.held_since if box.leases else 0.0
            if held_s > self._doubt_s:
                self.cache.forget(agent)
            if waiting > self._max_waiting:
                details[agent] = f"{waiting} messages wait, more than {self._max_waiting}"
            elif self._max_backlog is not None and box.leases and waiting > self._max_backlog:
                details[agent] = f"{waiting} messages wait behind one that it has had for {held_s:.3f} s"
            elif agent in members and agent not in self._pings and held_s > self._max_held_s:
                details[agent] = f"has had a message for {held_s:.3f} s, longer than {self._max_held_s:g}"

    def _questions(self, members: tuple[AgentID, ...]) -> dict[str, Work]:
        """What has to be asked, by name: nothing that answered lately."""
        asked: dict[str, Work] = {agent: self._pings[agent] for agent in members if agent in self._pings}
        asked.update(self._services)
        return {name: _answered(work) for name, work in asked.items() if self.cache.get(name) is None}

    def _note(self, name: str, end: Ended, details: dict[str, str]) -> None:
        """Remember a good answer, tell a bad one."""
        if end.error is not None:
            self.cache.forget(name)
            details[name] = end.words
        else:
            waiting = self._router.waiting(AgentID(name)) if name in self._router._boxes else 0
            self.cache.put(name, AgentHealth(int(self._now() * 1e9), end.elapsed_s * 1000, waiting))


def _answered(work: Work) -> Work:
    async def ask() -> None:
        if await work() is False:
            raise RuntimeError("not ready")

    return ask
