"""Random switching: the control that shows whether *when* to switch matters, or only that one switches."""

from __future__ import annotations

from random import Random

from apex_framework.errors import ConfigError
from apex_framework.interfaces import STAY, Decision, EpisodeContext, Observation, Transition


class RandomSwitch:
    """Starts in a random topology; at every decision that may switch, goes to a random other one with ``rate``."""

    def __init__(self, spec: str = "", rate: float = 0.1) -> None:
        try:
            self._rate = float(spec) if spec else float(rate)
        except ValueError:
            raise ConfigError(f"random_switch: the rate {spec!r} is not a number", "e.g. random_switch:0.1") from None
        if not 0.0 <= self._rate <= 1.0:
            raise ConfigError(f"random_switch: the rate {self._rate} is not in [0, 1]", "e.g. random_switch:0.1")
        self._topologies: tuple[str, ...] = ()
        self._random = Random(0)

    @property
    def name(self) -> str:
        """``random_switch:RATE``."""
        return f"random_switch:{self._rate:g}"

    def begin(self, episode: EpisodeContext) -> None:
        """Seeds its randomness from the episode."""
        self._topologies = episode.topologies
        self._random = Random(f"random_switch:{episode.seed}")

    def decide(self, observation: Observation) -> Decision:
        """A uniform topology at decision 0; then a uniform other one with probability ``rate``."""
        if not observation.topology:
            return Decision(self._random.choice(self._topologies), propensity=1.0 / len(self._topologies))
        others = [t for t in self._topologies if t != observation.topology]
        if not observation.can_switch or not others or self._rate == 0.0:
            return Decision(STAY, epsilon=self._rate)
        if self._random.random() < self._rate:
            return Decision(self._random.choice(others), propensity=self._rate / len(others), epsilon=self._rate)
        return Decision(STAY, propensity=1.0 - self._rate, epsilon=self._rate)

    def learn(self, transition: Transition) -> None:
        """Nothing to learn."""
