"""Meters: events and polled objects on one side, the registry on the other. Nothing here is on a message's way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Protocol

from ..events import (
    BackendWarmed,
    CallAnswered,
    CallDenied,
    CallSettled,
    DecisionTaken,
    EpisodeFinished,
    Event,
    HealthPinned,
    LoopStalled,
    MemoryPressure,
    ModelLoaded,
    ModelUnloaded,
    PlanCacheUsed,
    PressureChanged,
    SwitchFinished,
    ToolUsed,
    TopologyProbed,
)
from ..interfaces.message import AgentID
from .p2 import P2
from .registry import Registry

EVENTS: Mapping[str, Any] = {
    kind.__name__: kind
    for kind in (
        DecisionTaken,
        SwitchFinished,
        TopologyProbed,
        HealthPinned,
        PressureChanged,
        LoopStalled,
        MemoryPressure,
        ModelLoaded,
        ModelUnloaded,
        CallSettled,
        CallDenied,
        ToolUsed,
        BackendWarmed,
        CallAnswered,
        PlanCacheUsed,
    )
}
"""Events that artifacts keep as lines, by name; all are measured but calls that were not made or that no metric may see."""


class EventMeter:
    """Counts events; pass it to whatever takes an ``on_event``. Events that it does not measure pass it by."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._p95 = P2(0.95)
        self._tokens: dict[str, int] = {}
        self._takes: dict[type, Callable[[Any], None]] = {
            DecisionTaken: self._decision,
            SwitchFinished: self._switch,
            TopologyProbed: self._probe,
            HealthPinned: self._pin,
            PressureChanged: self._pressure,
            LoopStalled: self._stall,
            MemoryPressure: self._memory,
            ModelLoaded: self._loaded,
            ModelUnloaded: self._unloaded,
            CallSettled: self._call,
            CallDenied: self._denied,
            ToolUsed: self._tool,
            PlanCacheUsed: self._plan,
            EpisodeFinished: self._episode,
        }

    def __call__(self, event: Event) -> None:
        """Take one event."""
        take = self._takes.get(type(event))
        if take is not None:
            take(event)

    def _decision(self, event: DecisionTaken) -> None:
        registry = self.registry
        registry.counter("decisions_total", action=event.action).inc()
        registry.histogram("decision_ms").observe(event.latency_ms)
        self._p95.add(event.latency_ms)
        registry.gauge("decision_p95_ms").set(self._p95.value)

    def _switch(self, event: SwitchFinished) -> None:
        registry = self.registry
        registry.counter("switch_total", ok=_flag(event.ok)).inc()
        if event.ok:
            registry.histogram("switch_ms").observe(switch_ms(event))
        else:
            registry.counter("switch_abort_total", reason=_word(event.reason)).inc()
        for phase, took in event.phase_ms.items():
            registry.histogram("switch_phase_ms", phase=phase).observe(took)

    def _probe(self, event: TopologyProbed) -> None:
        self.registry.counter("topology_prevalidate_total", ok=_flag(event.ok)).inc()
        self.registry.histogram("topology_probe_ms").observe(event.elapsed_ms)

    def _pin(self, event: HealthPinned) -> None:
        self.registry.counter("health_pin_total", pinned=_flag(event.pinned)).inc()
        self.registry.gauge("health_pinned").set(float(event.pinned))

    def _pressure(self, event: PressureChanged) -> None:
        self.registry.counter("pressure_total", rung=event.rung).inc()

    def _stall(self, event: LoopStalled) -> None:
        self.registry.histogram("loop_stall_ms").observe(event.stalled_ms)

    def _memory(self, event: MemoryPressure) -> None:
        self.registry.counter("memory_pressure_total", level=event.level).inc()
        self.registry.gauge("memory_free_share").set(event.free_share)

    def _loaded(self, event: ModelLoaded) -> None:
        self.registry.counter("model_loads_total", model=event.model).inc()
        self.registry.histogram("model_switch_ms").observe(event.switch_ms)
        self.registry.histogram("model_wait_ms").observe(event.waited_ms)
        self.registry.gauge("models_resident").set(event.resident)

    def _unloaded(self, event: ModelUnloaded) -> None:
        self.registry.counter("model_evictions_total", model=event.model, reason=event.reason).inc()

    def _call(self, event: CallSettled) -> None:
        registry, tokens = self.registry, event.tokens_in + event.tokens_out
        registry.counter("calls_total", role=event.role, status=event.status).inc()
        registry.counter("agent_tokens_used", role=event.role).inc(tokens)
        if event.failure:
            registry.counter("call_failures_total", failure=_word(event.failure)).inc()
        self._tokens[event.episode_id] = used = self._tokens.get(event.episode_id, 0) + tokens
        gauge = registry.gauge("episode_tokens_used")
        gauge.set(max(used, gauge.value or 0.0))
        registry.histogram("call_tokens_in").observe(event.tokens_in)
        registry.histogram("call_tokens_out").observe(event.tokens_out)
        if event.tokenize_ms:
            registry.histogram("tokenize_ms").observe(event.tokenize_ms)
        if event.estimated_in and event.tokens_in and event.status in ("ok", "length"):
            error = 100 * (event.estimated_in - event.tokens_in) / event.tokens_in
            registry.histogram("token_est_bias_pct").observe(error)
            registry.histogram("token_est_abs_err_pct").observe(abs(error))

    def _denied(self, event: CallDenied) -> None:
        reason = _word(next(iter(event.reasons.values()), ""))
        self.registry.counter("budget_denied", role=event.role, reason=reason).inc()

    def _tool(self, event: ToolUsed) -> None:
        self.registry.counter("tool_calls_total", tool=event.tool, ok=_flag(event.ok)).inc()
        self.registry.histogram("tool_ms", tool=event.tool).observe(event.elapsed_ms)

    def _plan(self, event: PlanCacheUsed) -> None:
        if event.what not in ("hit", "miss"):
            return
        registry = self.registry
        hits, misses = registry.counter("plan_cache_hits_total"), registry.counter("plan_cache_misses_total")
        (hits if event.what == "hit" else misses).inc()
        registry.gauge("plan_cache_hit_rate").set(hits.value / (hits.value + misses.value))

    def _episode(self, event: EpisodeFinished) -> None:
        self.registry.counter("episodes_total", status=str(event.record.get("status", ""))).inc()
        if event.record.get("success"):
            self.registry.counter("episodes_success_total").inc()
        self._tokens.pop(event.episode_id, None)


def switch_ms(event: SwitchFinished) -> float:
    """How long a switch took as a whole: as it was measured around it, else its phases together."""
    return event.whole_ms or sum(event.phase_ms.values())


COUNTED = ("redelivered", "forwarded", "migrated", "fanout_cut", "bytes", "throttled", "duplicates", "late")
"""Counters of a router that become ``messages_…_total`` as they are."""


class Polled(Protocol):
    """What is asked of a router."""

    @property
    def stats(self) -> Any:
        """Its counters, as ``RouterStats``."""
        ...

    @property
    def table(self) -> Any:
        """Its routes: whose lanes there are."""
        ...

    def occupancy(self) -> float:
        """Share of the fullest lane in use."""
        ...

    def waiting(self, agent: AgentID) -> int:
        """Messages that wait for one agent."""
        ...


class RouterMeter:
    """Looks at a router now and then: ``poll`` after a step, ``finish`` at the end. A message costs nothing.

    Counters stand where the router's own stand. Waiting messages are seen as they are at a poll: the histograms of
    occupancy and depth are of polls, not of time.
    """

    def __init__(self, registry: Registry, router: Polled) -> None:
        self._registry, self._router = registry, router
        self._occupancy = registry.histogram("lane_occupancy")
        self._depths: dict[str, Any] = {}

    def poll(self) -> None:
        """See how full the lanes are."""
        router = self._router
        self._occupancy.observe(router.occupancy())
        for agent in router.table.roster.ids:
            depth = self._depths.get(agent)
            if depth is None:
                depth = self._depths[agent] = self._registry.histogram("lane_depth", receiver=str(agent))
            depth.observe(router.waiting(agent))

    def finish(self) -> None:
        """Read the counters; may be called again later."""
        stats, registry = self._router.stats, self._registry
        for priority, told in stats.classes.items():
            registry.counter("messages_admitted_total", priority=priority).mirror(told.admitted)
            registry.counter("messages_acked_total", priority=priority).mirror(told.acked)
            registry.counter("messages_lost_total", priority=priority, how="dead").mirror(told.dead)
            registry.counter("messages_lost_total", priority=priority, how="refused").mirror(told.refused)
        for reason, count in stats.dead.items():
            registry.counter("messages_dead_total", reason=reason).mirror(count)
        for reason, count in stats.refused.items():
            registry.counter("messages_refused_total", reason=reason).mirror(count)
        for name in COUNTED:
            registry.counter(f"messages_{name}_total").mirror(getattr(stats, name))


def poll_ledger(registry: Registry, ledger: Any) -> None:
    """Read a ledger: expired reservations, and by name of scope what is used and what is left."""
    registry.counter("reservation_expired_total").mirror(ledger.expired)
    used: dict[str, int] = {}
    room: dict[str, float] = {}
    for scope_id in ledger.scopes:
        name, balance = scope_id.partition(":")[0], ledger.balance(scope_id)
        used[name] = max(used.get(name, 0), balance.used)
        room[name] = min(room.get(name, 1.0), balance.headroom)
    for name in used:
        registry.gauge("budget_used_tokens", scope=name).set(used[name])
        registry.gauge("budget_headroom", scope=name).set(room[name])
    if "day" in used:
        registry.gauge("daily_tokens_used").set(used["day"])


def poll_health(registry: Registry, ages_s: Mapping[str, float]) -> None:
    """Agent -> age in seconds of what is known of its health."""
    for agent, age in ages_s.items():
        registry.gauge("agent_health_age_s", agent=str(agent)).set(age)


def event_of(row: Mapping[str, Any], episode_id: str) -> Event | None:
    """The event that a line of an artifact was; None when its form is no event's."""
    kind = EVENTS.get(str(row.get("event", "")))
    if kind is None:
        return None
    names = {part.name for part in fields(kind)}
    values = {**row, "episode_id": episode_id}
    try:
        event: Event = kind(**{name: values[name] for name in names & set(values)})
    except TypeError:
        return None
    return event


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _word(reason: str) -> str:
    """What a reason says before its details: labels must not grow with texts."""
    return reason.partition(":")[0].strip() or "unknown"
