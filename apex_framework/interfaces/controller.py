"""Controller: chooses the topology, step by step. It never sees or handles a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

STAY: Final = "stay"
"""The action that keeps the current topology."""


@dataclass(frozen=True, slots=True)
class EpisodeContext:
    """What a controller may know when an episode begins."""

    episode_id: str
    seed: int
    topologies: tuple[str, ...]
    token_budget: int
    dwell_min_steps: int = 2
    frozen: bool = True
    """False while training or in a declared online arm: exploration and updates are on."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Raw quantities of a running episode, a snapshot taken after a step. Features are the controller's own business.

    Shares and counts are over the last ``window`` handled messages, oldest first in ``recent_roles``.
    """

    step: int
    topology: str
    """Current topology; empty at decision 0, before the first message."""
    topologies: tuple[str, ...]
    epoch: int = 0
    steps_since_switch: int = 0
    switches: int = 0
    can_switch: bool = True
    """False while dwell or cooldown holds, or a switch is in flight: only STAY will be carried out at once."""
    recent_roles: tuple[str, ...] = ()
    headroom: Mapping[str, float] = field(default_factory=dict)
    """Scope name -> share of its token budget that is neither used nor reserved, in [0, 1]."""
    tokens_used: int = 0
    token_budget: int = 0
    occupancy: float = 0.0
    """Fullest lane's share of its capacity, in [0, 1]."""
    shed: int = 0
    denied: int = 0
    aborted_switches: int = 0
    fanout_cut: int = 0
    test_runs: int = 0
    edits: int = 0
    pass_rate: float | None = None
    """Share of visible tests that passed in the last test run; None before one."""
    steps_since_progress: int = 0
    phase: str = ""
    """Heuristic phase, for baselines only: planning, implementation or debug."""
    extra: Mapping[str, float] = field(default_factory=dict)
    """Quantities of later rooms (health, caches) without a change of this contract."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice: STAY or the name of a topology, with what is needed to judge it later."""

    action: str
    scores: Mapping[str, float] = field(default_factory=dict)
    propensity: float = 1.0
    """Probability with which this action was chosen, exploration included."""
    features: tuple[float, ...] = ()
    epsilon: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Raw parts of what followed a decision until the next one; the weighting is the controller's."""

    duration: int = 1
    """Steps until the next decision (k of a semi-Markov decision process)."""
    tokens: int = 0
    elapsed_ms: float = 0.0
    """Episode time, virtual in a deterministic episode."""
    pass_rate_delta: float = 0.0
    phase_advanced: bool = False
    switched: bool = False
    aborted: bool = False
    deferred: bool = False
    denied: int = 0
    denied_tokens: int = 0
    """Sum of the estimates that were refused."""
    terminal: bool = False
    success: bool = False


@dataclass(frozen=True, slots=True)
class Transition:
    """One decision with the state it was taken in, what followed, and the next state (None at the end)."""

    observation: Observation
    decision: Decision
    outcome: Outcome
    next_observation: Observation | None = None


@runtime_checkable
class Controller(Protocol):
    """Decides at step 0 and after every step; learns from what followed."""

    @property
    def name(self) -> str:
        """Name under which it is registered, options included where they matter."""
        ...

    def begin(self, episode: EpisodeContext) -> None:
        """Forget the last episode; seed this one's randomness from ``episode.seed``."""
        ...

    def decide(self, observation: Observation) -> Decision:
        """Choose. Must not await, block or keep the observation."""
        ...

    def learn(self, transition: Transition) -> None:
        """Take note of what followed a decision. A frozen controller does nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A controller's learned state: float64 arrays by name and JSON-ready settings. Never a pickle."""

    arrays: Mapping[str, Any]
    """Name -> numpy array or nested list of floats."""
    meta: Mapping[str, Any]


@runtime_checkable
class Trainable(Protocol):
    """Optional ability of a controller: its learned state can be saved, and set.

    One that also has an attribute ``trained`` which is false is reported as untrained.
    """

    def save(self) -> Checkpoint:
        """The learned state."""
        ...

    def load(self, checkpoint: Checkpoint) -> None:
        """Take over a saved state. Raises ValueError when it does not fit."""
        ...
