"""Selection without switching: a bandit that chooses a topology once per episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

from apex_framework.interfaces import STAY, Checkpoint, Decision, EpisodeContext, Observation, Transition

from .exploration import LinearDecay, epsilon_greedy
from .learned import LearnedRidge

FEATURES = ("bias",)
"""What is known before the first message and differs between episodes: nothing yet but a constant."""


class PerEpisode:
    """Epsilon-greedy ridge on the episode's success. What bandit_v1 gains over it is due to switching."""

    def __init__(
        self,
        policy: str | Path | None = None,
        *,
        lam: float = 1.0,
        epsilon_start: float = 0.2,
        epsilon_end: float = 0.05,
        epsilon_decisions: int = 500,
        topologies: Sequence[str] = ("star", "chain", "flat"),
    ) -> None:
        self._decay = LinearDecay(epsilon_start, epsilon_end, epsilon_decisions)
        self._context = EpisodeContext("", 0, tuple(topologies), 10_000, frozen=False)
        self._state = LearnedRidge("per_episode", tuple, lambda _: FEATURES, lam, policy)
        if not self._state.topologies:  # a given policy brings its own
            self._state.fit_to(self._context.topologies)
        self._context = replace(self._context, topologies=self._state.topologies)
        self._random = Random(0)
        self._chosen = ""

    @property
    def name(self) -> str:
        """``per_episode``."""
        return "per_episode"

    @property
    def trained(self) -> bool:
        """Whether it has learned anything, here or in a loaded policy."""
        return self._state.decisions > 0

    def begin(self, episode: EpisodeContext) -> None:
        """Raises ConfigError when its policy is for other topologies, ArtifactError when it cannot be read."""
        self._state.fit_to(episode.topologies)
        self._context = episode
        self._random = Random(f"per_episode:{episode.seed}")
        self._chosen = ""

    def decide(self, observation: Observation) -> Decision:
        """A topology at decision 0, then STAY."""
        if observation.topology:
            return Decision(STAY)
        epsilon = 0.0 if self._context.frozen else self._decay.at(self._state.decisions)
        scores = dict(zip(self._state.actions, self._state.ridge.scores((1.0,)), strict=True))
        action, propensity = epsilon_greedy(scores, epsilon, self._random)
        return Decision(action, scores, propensity, (1.0,), epsilon)

    def learn(self, transition: Transition) -> None:
        """Note which topology the episode started with; learn when it ends."""
        if self._context.frozen:
            return
        if not transition.observation.topology:
            self._chosen = transition.decision.action
        if transition.outcome.terminal and self._chosen:
            self._state.update(self._state.actions.index(self._chosen), (1.0,), float(transition.outcome.success))
            self._chosen = ""

    def save(self) -> Checkpoint:
        """Weights, sums and inverses, with everything needed to go on."""
        return self._state.save({"epsilon": asdict(self._decay)})

    def load(self, checkpoint: Checkpoint) -> None:
        """Raises ValueError when the checkpoint is not one of this controller's."""
        self._state.load(checkpoint)
