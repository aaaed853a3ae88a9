"""Every metric there is: name, type, unit, labels, meaning, and where its values come from. One table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A declared metric."""

    name: str
    kind: str
    """``counter``, ``gauge`` or ``histogram``."""
    unit: str
    help: str
    source: str
    """The event or the object that it is taken from; ``later: …`` for one that nothing in this version can move."""
    labels: tuple[str, ...] = ()
    merge: str = "max"
    """What becomes of a gauge when parts of a run are put together: ``max`` or ``last``."""

    @property
    def has_source(self) -> bool:
        """Whether anything in this version can move it."""
        return not self.source.startswith("later")


def _counter(name: str, unit: str, help: str, source: str, *labels: str) -> MetricSpec:
    return MetricSpec(name, "counter", unit, help, source, labels)


def _gauge(name: str, unit: str, help: str, source: str, *labels: str, merge: str = "max") -> MetricSpec:
    return MetricSpec(name, "gauge", unit, help, source, labels, merge)


def _histogram(name: str, unit: str, help: str, source: str, *labels: str) -> MetricSpec:
    return MetricSpec(name, "histogram", unit, help, source, labels)


_PLAN_CACHE: Final = "PlanCacheUsed"
_POOL: Final = "HasPool"
_CALLS: Final = "LLMService.stats"
_TOKENIZERS: Final = "TokenizerPool"
_ROUTER: Final = "Router.stats"
_LEDGER: Final = "Ledger"

_ALL: Iterable[MetricSpec] = (
    # What a run comes to.
    _counter("episodes_total", "episodes", "Episodes that ended, by how.", "EpisodeFinished", "status"),
    _histogram("episode_ms", "ms", "Time from an episode's first message to its last, by its own clock.", "Session"),
    _counter("episodes_success_total", "episodes", "Episodes whose hidden tests pass.", "EpisodeFinished"),
    # Decisions.
    _counter("decisions_total", "decisions", "Decisions, by what was chosen.", "DecisionTaken", "action"),
    _histogram("decision_ms", "ms", "Wall time that a controller took to decide.", "DecisionTaken"),
    _gauge("decision_p95_ms", "ms", "The same, 95th percentile so far (P²).", "DecisionTaken", merge="max"),
    # Switches.
    _counter("switch_total", "switches", "Switches that ended, committed or not.", "SwitchFinished", "ok"),
    _counter("switch_abort_total", "switches", "Switches that were aborted, by why.", "SwitchFinished", "reason"),
    _histogram("switch_ms", "ms", "Committed switches from wish to commit, probe included.", "SwitchFinished"),
    _histogram("switch_phase_ms", "ms", "Phases of switches, of aborted ones too.", "SwitchFinished", "phase"),
    # Health.
    _counter("topology_prevalidate_total", "probes", "Targets examined before a switch.", "TopologyProbed", "ok"),
    _histogram("topology_probe_ms", "ms", "Time that a probe took.", "TopologyProbed"),
    _gauge("agent_health_age_s", "s", "Age of what is known of an agent's health.", "HealthCache", "agent"),
    _counter(
        "health_pin_total", "changes", "Times that the topology was pinned or unpinned.", "HealthPinned", "pinned"
    ),
    _gauge("health_pinned", "bool", "1 while the topology is pinned for health's sake.", "HealthPinned", merge="last"),
    _histogram("loop_stall_ms", "ms", "How long something held the event loop.", "LoopStalled"),
    _counter("pressure_total", "changes", "Changes of the load's rung, by the new one.", "PressureChanged", "rung"),
    # Models in this machine's memory.
    _counter("memory_pressure_total", "changes", "Changes of memory pressure, by level.", "MemoryPressure", "level"),
    _gauge("memory_free_share", "share", "Free memory at the last such change.", "MemoryPressure", merge="last"),
    _counter("model_loads_total", "loads", "Models given a place among several, by model.", "ModelLoaded", "model"),
    _counter("model_evictions_total", "unloads", "Models unloaded, by why.", "ModelUnloaded", "model", "reason"),
    _histogram("model_switch_ms", "ms", "Wall time of unloading what had to go and loading.", "ModelLoaded"),
    _histogram("model_wait_ms", "ms", "Wall time that a call waited before its model's turn.", "ModelLoaded"),
    _gauge("models_resident", "models", "Models that have a place; of several episodes the most.", "ModelLoaded"),
    # Tokens.
    _counter("calls_total", "calls", "Model calls that ended, by role and status.", "CallSettled", "role", "status"),
    _counter("budget_denied", "calls", "Model calls refused before they were made.", "CallDenied", "role", "reason"),
    _gauge("episode_tokens_used", "tokens", "Tokens of an episode; of several, of the costliest.", "CallSettled"),
    _counter("agent_tokens_used", "tokens", "Tokens by role of the agent that spent them.", "CallSettled", "role"),
    _gauge("daily_tokens_used", "tokens", "Tokens spent in a scope named day, where the arm has one.", _LEDGER),
    _gauge("budget_used_tokens", "tokens", "Tokens spent in a scope; of several episodes the most.", _LEDGER, "scope"),
    _gauge("budget_headroom", "share", "Free share of the fullest such scope.", _LEDGER, "scope", merge="last"),
    _counter("reservation_expired_total", "reservations", "Reservations that nobody settled in time.", _LEDGER),
    _histogram("call_tokens_in", "tokens", "Prompt tokens of a call.", "CallSettled"),
    _histogram("call_tokens_out", "tokens", "Answer tokens of a call.", "CallSettled"),
    _histogram("tokenize_ms", "ms", "Wall time that counting a prompt's tokens took.", "CallSettled"),
    _histogram("token_est_abs_err_pct", "percent", "Error of a prompt's estimate, without its sign.", "CallSettled"),
    _histogram("token_est_bias_pct", "percent", "The same with its sign; the mean is the bias.", "CallSettled"),
    # Model servers.
    _counter("call_failures_total", "calls", "Model calls without an answer, by kind.", "CallSettled", "failure"),
    _counter("call_retries_total", "calls", "Times that a model was asked again.", _CALLS),
    _counter("usage_disbelieved_total", "calls", "Answers whose reported usage cannot be true.", _CALLS),
    _counter("breaker_open_total", "openings", "Times that a backend was left alone.", "Breakers"),
    _counter("tokenizer_loads_total", "loads", "Tokenizers that were loaded.", _TOKENIZERS),
    _counter("tokenizer_evicted_total", "tokenizers", "Tokenizers dropped for others.", _TOKENIZERS),
    _histogram("pool_acquire_ms", "ms", "Time until a pooled connection was there.", _POOL),
    _gauge("pool_conn_in_use", "connections", "Pooled connections in use, the most that were seen.", _POOL),
    # Tools.
    _counter("tool_calls_total", "calls", "Tool calls, by tool and success.", "ToolUsed", "tool", "ok"),
    _histogram("tool_ms", "ms", "Episode time that a tool call took.", "ToolUsed", "tool"),
    # Messages: hops, as the router counts them.
    _counter("messages_admitted_total", "messages", "Hops that were admitted.", _ROUTER, "priority"),
    _counter("messages_acked_total", "messages", "Hops that were acknowledged.", _ROUTER, "priority"),
    _counter("messages_lost_total", "messages", "Hops dead or refused, by class.", _ROUTER, "priority", "how"),
    _counter("messages_dead_total", "messages", "Admitted hops that died, by why.", _ROUTER, "reason"),
    _counter("messages_refused_total", "messages", "Hops that were refused, by why.", _ROUTER, "reason"),
    _counter("messages_throttled_total", "messages", "Messages whose sender was made to wait.", _ROUTER),
    _counter("messages_duplicates_total", "messages", "Deliveries flagged as duplicates.", _ROUTER),
    _counter("messages_late_total", "messages", "Acks, nacks and renewals of leases that had ended.", _ROUTER),
    _counter("messages_redelivered_total", "messages", "Deliveries of what had been delivered.", _ROUTER),
    _counter("messages_forwarded_total", "messages", "Hops that began at a relay.", _ROUTER),
    _counter("messages_migrated_total", "messages", "Hops taken along into the next epoch.", _ROUTER),
    _counter("messages_fanout_cut_total", "messages", "Receivers passed over by the fan-out bound.", _ROUTER),
    _counter("messages_bytes_total", "bytes", "Payload bytes of admitted hops.", _ROUTER),
    _histogram("lane_occupancy", "share", "Share of the fullest lane in use, seen after every step.", _ROUTER),
    _histogram("lane_depth", "messages", "Messages that wait, seen after every step.", _ROUTER, "receiver"),
    # Where time went; sampled.
    _histogram("message_part_ms", "ms", "Parts of a hop's life: gate, lane, backoff, hands.", "MessageMoved", "part"),
    _histogram("message_ms", "ms", "A hop's life, from admission to its end.", "MessageMoved"),
    # Plans, where an arm has the cache.
    _counter("plan_cache_hits_total", "plans", "Model calls that the plan cache answered.", _PLAN_CACHE),
    _counter("plan_cache_misses_total", "plans", "Model calls that it was asked for and could not.", _PLAN_CACHE),
    _gauge(
        "plan_cache_hit_rate",
        "share",
        "Hits as a share of both; of several episodes the last one's.",
        _PLAN_CACHE,
        merge="last",
    ),
    # Declared, and without anything to move them in this version.
)

METRICS: Final[dict[str, MetricSpec]] = {spec.name: spec for spec in _ALL}
"""Name -> declaration."""
