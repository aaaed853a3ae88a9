"""BanditSwitch v1: a linear contextual bandit over topologies (spec/apex-mvp.md section 4, CTL-1 to CTL-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import fsum, inf
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from apex_framework.errors import ConfigError
from apex_framework.interfaces import STAY, Checkpoint, Decision, EpisodeContext, Observation, Transition

from .exploration import LinearDecay, epsilon_greedy
from .features import bandit_features, feature_names
from .learned import LearnedRidge
from .reward import RewardWeights, credited_denials, credited_returns, reward_parts


class BanditV1:
    """Epsilon-greedy ridge; actions are STAY and the topologies, the current topology's own name masked.

    While a switch is impossible only STAY is chosen. Learning happens when an episode's terminal transition arrives,
    because every decision is credited with its end; an episode that never ends teaches nothing. The features of a
    transition are computed from its observation, so that other controllers' episodes can warm it up. Without
    ``policy`` the shipped one for the arm's topologies is loaded if there is one; ``policy="none"`` starts untrained.

    Two options are for ablations. Features named in ``mask`` are 0 for this controller, whatever the policy was
    trained with; ``switch_cost``, in units of predicted return, is taken off every action but STAY before the choice.
    """

    kind: ClassVar[str] = "bandit_v1"
    """Name of the controller, and of what it has learned."""

    def __init__(
        self,
        policy: str | Path | None = None,
        *,
        lam: float = 1.0,
        epsilon_start: float = 0.2,
        epsilon_end: float = 0.05,
        epsilon_decisions: int = 5_000,
        reward: Mapping[str, float] | None = None,
        topologies: Sequence[str] = ("star", "chain", "flat"),
        mask: Sequence[str] = (),
        switch_cost: float = 0.0,
    ) -> None:
        """Raises ConfigError for impossible options."""
        self._mask = frozenset([mask] if isinstance(mask, str) else mask)
        self._switch_cost = _cost(switch_cost)
        self._decay = LinearDecay(epsilon_start, epsilon_end, epsilon_decisions)
        self._weights = RewardWeights.of(reward or {})
        self._context = EpisodeContext("", 0, tuple(topologies), 10_000, frozen=False)
        self._state = LearnedRidge(self.kind, lambda ts: (STAY, *ts), feature_names, lam, policy)
        if not self._state.topologies:  # a given policy brings its own
            self._state.fit_to(self._context.topologies)
        self._context = replace(self._context, topologies=self._state.topologies)
        self._random = Random(0)
        self._k_dwell = 2 * self._context.dwell_min_steps
        self._pending: list[tuple[tuple[float, ...], int, float, int, float]] = []

    @property
    def name(self) -> str:
        """``bandit_v1``."""
        return self.kind

    @property
    def trained(self) -> bool:
        """Whether it has learned anything, here or in a loaded policy."""
        return self._state.decisions > 0

    def begin(self, episode: EpisodeContext) -> None:
        """Raises ConfigError when its policy is for other topologies, ArtifactError when it cannot be read."""
        self._state.fit_to(episode.topologies)
        known = feature_names(episode.topologies)
        if unknown := sorted(self._mask.difference(known)):
            raise ConfigError(f"{self.kind}: mask names no feature: {unknown[0]!r}", f"known: {', '.join(known)}")
        self._context = episode
        self._k_dwell = max(1, 2 * episode.dwell_min_steps)
        self._random = Random(f"{self.kind}:{episode.seed}")
        self._pending = []

    def decide(self, observation: Observation) -> Decision:
        """Choose among what is possible now."""
        topologies = self._context.topologies
        features = self._features(observation, topologies)
        epsilon = 0.0 if self._context.frozen else self._decay.at(self._state.decisions)
        current = observation.topology
        if current and not observation.can_switch:
            return Decision(STAY, features=tuple(features), epsilon=epsilon)
        scores = dict(zip(self._state.actions, self._state.ridge.scores(features), strict=True))
        scores.pop(current or STAY, None)
        if current and self._switch_cost:
            scores = {name: s if name == STAY else s - self._switch_cost for name, s in scores.items()}
        action, propensity = self._choose(scores, features, epsilon)
        return Decision(action, scores, propensity, tuple(features), epsilon)

    def learn(self, transition: Transition) -> None:
        """Keep what followed a decision; at the end of the episode, learn from all of them in order."""
        if self._context.frozen:
            return
        parts = self.reward_parts(transition, self._context)
        bonus = parts.pop("terminal")
        action = transition.decision.action
        if action == transition.observation.topology:
            action = STAY
        features = tuple(self._features(transition.observation, self._context.topologies))
        own, duration = fsum(parts.values()), transition.outcome.duration
        self._pending.append((features, self._state.actions.index(action), own, duration, parts["deny"]))
        if not transition.outcome.terminal:
            return
        pending, self._pending = self._pending, []
        weights, durations = self._weights, [p[3] for p in pending]
        returns = credited_returns([p[2] for p in pending], durations, bonus, weights.gamma)
        denials = credited_denials([p[4] for p in pending], durations, weights.deny_credit, weights.gamma)
        for (x, chosen, *_), target, denial in zip(pending, returns, denials, strict=True):
            self.update(x, chosen, target + denial)

    def reward_parts(self, transition: Transition, context: EpisodeContext) -> dict[str, float]:
        """Weighted reward parts of one decision's own interval, and the terminal bonus, for the logs."""
        return reward_parts(transition, context, self._weights)

    def decide_features(self, features: Sequence[float]) -> dict[str, Any]:
        """The specification's ``decide``: ``{"action": index into (stay, *topologies), "epsilon"}``.

        The current topology is read from the one-hot; dwell and cooldown are the caller's.
        """
        epsilon = 0.0 if self._context.frozen else self._decay.at(self._state.decisions)
        scores = dict(zip(self._state.actions, self._state.ridge.scores(features), strict=True))
        onehot = features[: len(self._context.topologies)]
        scores.pop(self._context.topologies[list(onehot).index(1.0)] if 1.0 in onehot else STAY)
        action, _ = epsilon_greedy(scores, epsilon, self._random)
        return {"action": self._state.actions.index(action), "epsilon": epsilon}

    def update(self, features: Sequence[float], action: int, reward: float) -> None:
        """The specification's ``update``: one row for one action. A frozen controller does nothing."""
        if not self._context.frozen:
            self._state.update(action, features, reward)

    def save(self) -> Checkpoint:
        """Weights, sums and inverses, with everything needed to go on."""
        return self._state.save({"reward": self._weights.saved(), "epsilon": asdict(self._decay)})

    def _features(self, observation: Observation, topologies: Sequence[str]) -> list[float]:
        features = bandit_features(observation, topologies, self._k_dwell)
        if not self._mask:
            return features
        names = feature_names(topologies)
        return [0.0 if name in self._mask else x for name, x in zip(names, features, strict=True)]

    def _choose(self, scores: Mapping[str, float], features: Sequence[float], epsilon: float) -> tuple[str, float]:
        """An action and the probability that it had."""
        return epsilon_greedy(scores, epsilon, self._random)

    def load(self, checkpoint: Checkpoint) -> None:
        """Raises ValueError when the checkpoint is not one of this controller's."""
        self._state.load(checkpoint)


def _cost(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < inf:
        raise ConfigError(f"switch_cost: a finite number of at least 0 is needed, not {value!r}")
    return float(value)
