"""What happened, as data: frozen records that observers, exporters and artifacts share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import tool_events

ToolUsed = tool_events.ToolUsed
OperationLogged = tool_events.OperationLogged
ToolProgressed = tool_events.ToolProgressed
DirectCallBlocked = tool_events.DirectCallBlocked
LoopDetected = tool_events.LoopDetected
EffectInDoubt = tool_events.EffectInDoubt


@dataclass(frozen=True, slots=True)
class EpisodeStarted:
    """An episode begins."""

    episode_id: str
    arm: str
    task_id: str
    seed: int


@dataclass(frozen=True, slots=True)
class EpisodeFinished:
    """An episode ended; ``record`` is its line in episodes.jsonl."""

    episode_id: str
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MessageMoved:
    """A message changed its state. ``ts`` is episode time in seconds.

    ``what`` is routed (into ``receiver``'s lane), held (at the epoch gate), released (from it), delivered, acked, nacked,
    migrated (into ``epoch``; with an empty ``receiver`` its hop to ``reason`` ends and is routed anew),
    dead or refused (``reason`` says why).
    """

    episode_id: str
    msg_id: str
    what: str
    origin: str
    holder: str
    receiver: str
    audience: str
    epoch: int
    ts: float
    size: int = 0
    reason: str = ""
    hop: int = 0
    """Number of the hop, unique within the router; a message has one for each receiver and each relay."""
    priority: str = ""
    """Service class of the message."""


@dataclass(frozen=True, slots=True)
class DecisionTaken:
    """A controller decided. ``latency_ms`` is wall time and never enters deterministic artifacts' other columns."""

    episode_id: str
    step: int
    topology: str
    action: str
    propensity: float
    epsilon: float
    scores: Mapping[str, float] = field(default_factory=dict)
    features: tuple[float, ...] = ()
    latency_ms: float = 0.0
    observe_ms: float = 0.0
    """Wall time that it took to see what the decision was made on."""
    learn_ms: float = 0.0
    """Wall time that the controller took to learn from what the last decision led to."""
    observation: Mapping[str, Any] = field(default_factory=dict)
    """What it was made on: all of the ``Observation`` but ``step``, ``topology`` and what the arm has (topologies, budget)."""


@dataclass(frozen=True, slots=True)
class TopologyChanged:
    """A switch was committed."""

    episode_id: str
    origin: str
    target: str
    epoch: int


@dataclass(frozen=True, slots=True)
class SwitchFinished:
    """A switch ended, committed or aborted; ``phase_ms`` by phase in episode time."""

    episode_id: str
    step: int
    origin: str
    target: str
    ok: bool
    epoch: int
    reason: str = ""
    phase_ms: Mapping[str, float] = field(default_factory=dict)
    migrated: int = 0
    dropped_by_reason: Mapping[str, int] = field(default_factory=dict)
    whole_ms: float = 0.0
    """From the wish to the end, measured around all phases, an examination of the target included; episode time."""


@dataclass(frozen=True, slots=True)
class CallSettled:
    """A model call ended: what was reserved and what it cost, in tokens."""

    episode_id: str
    agent_id: str
    role: str
    purpose: str
    status: str
    reserved: int
    tokens_in: int
    tokens_out: int
    message_tokens: int = 0
    """Part of ``tokens_in`` that came from messages of other agents."""
    estimated_in: int = 0
    """What the prompt was estimated at, without a margin."""
    tokenize_ms: float = 0.0
    """Wall time that the estimate took."""
    failure: str = ""
    """Kind of failure, where one is known."""
    determinism: str = ""
    """How far the same request has the same answer: ``seeded``, ``none``, or empty where it always has."""


@dataclass(frozen=True, slots=True)
class BackendWarmed:
    """A backend was warmed up before the first episode: calls and tokens that no metric and no budget of an episode sees."""

    model_id: str
    calls: int
    tokens_in: int
    tokens_out: int
    elapsed_ms: float
    failure: str = ""
    """Why it broke off; empty when it did not."""


@dataclass(frozen=True, slots=True)
class CallDenied:
    """A model call was refused before it was made (``budget_denied``)."""

    episode_id: str
    agent_id: str
    role: str
    purpose: str
    estimate: int
    reasons: Mapping[str, str] = field(default_factory=dict)
    remaining: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """A model call that an interceptor answered without making it: nothing was reserved, and it cost nothing.

    ``tokens_in`` and ``tokens_out`` are what its prompt and that answer hold.
    """

    episode_id: str
    agent_id: str
    role: str
    purpose: str
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class PlanCacheUsed:
    """A plan cache was asked (``what`` is ``hit`` or ``miss``), or a plan was kept in it (``put``)."""

    episode_id: str
    agent_id: str
    role: str
    purpose: str
    what: str
    repo_id: str
    issue_cluster: str
    phase: str
    question: str = ""
    """Digest of what was asked for."""
    steps: tuple[str, ...] = ()
    """Of a plan that was served or kept."""
    version: str = ""
    """Form of that plan."""


@dataclass(frozen=True, slots=True)
class TopologyProbed:
    """A target was examined before a switch; ``details`` says by member or part what is wrong. Time is episode time."""

    episode_id: str
    target: str
    ok: bool
    elapsed_ms: float
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HealthPinned:
    """The topology was pinned for health's sake, or unpinned; ``reason`` says on what evidence."""

    episode_id: str
    pinned: bool
    topology: str
    reason: str


@dataclass(frozen=True, slots=True)
class PressureChanged:
    """The load on the router changed its rung: ``calm``, ``throttle``, ``shed`` or ``reconfigure``; ``occupancy`` in [0, 1]."""

    episode_id: str
    rung: str
    receiver: str
    occupancy: float


@dataclass(frozen=True, slots=True)
class LoopStalled:
    """Something held the event loop; ``stack`` is where, ``agent_id`` who was at work, empty when nobody was."""

    episode_id: str
    agent_id: str
    stalled_ms: float
    stack: str = ""


@dataclass(frozen=True, slots=True)
class MemoryPressure:
    """Memory on a machine that holds models ran low, lower, or recovered: once per episode of pressure and level.

    ``level`` is ``calm``, ``warn`` or ``critical``; ``free_share`` in [0, 1]; sizes in bytes.
    """

    episode_id: str
    level: str
    free_share: float
    available: int
    total: int


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    """A model that shares its place with others was loaded. ``switch_ms`` also holds unloading what had to go."""

    episode_id: str
    model: str
    switch_ms: float
    waited_ms: float
    """Wall time that the call that needed it had waited before."""
    resident: int
    """Models that have a place now."""


@dataclass(frozen=True, slots=True)
class ModelUnloaded:
    """A model gave its memory free. ``reason`` is ``rotation`` or ``memory``; ``calls`` it had under way, which ended."""

    episode_id: str
    model: str
    reason: str
    calls: int = 0
    resident: int = 0
    """Models that have a place now, where they share one."""


@dataclass(frozen=True, slots=True)
class RunFinished:
    """All episodes of a run are done; ``path`` is the run folder."""

    run_id: str
    path: str
    episodes: int


Event = (
    EpisodeStarted
    | EpisodeFinished
    | MessageMoved
    | DecisionTaken
    | TopologyChanged
    | SwitchFinished
    | CallSettled
    | BackendWarmed
    | CallDenied
    | CallAnswered
    | PlanCacheUsed
    | ToolUsed
    | OperationLogged
    | ToolProgressed
    | DirectCallBlocked
    | LoopDetected
    | EffectInDoubt
    | TopologyProbed
    | HealthPinned
    | PressureChanged
    | LoopStalled
    | MemoryPressure
    | ModelLoaded
    | ModelUnloaded
    | RunFinished
)
"""Anything that can happen."""
