"""Static: one topology for the whole episode."""

from __future__ import annotations

from apex_framework.errors import ConfigError
from apex_framework.interfaces import STAY, Decision, EpisodeContext, Observation, Transition


class Static:
    """Decision 0 is its topology, every other one STAY. Without a spec: the first of the arm's topologies."""

    def __init__(self, spec: str = "") -> None:
        self._wanted = spec.strip()
        self._topology = self._wanted

    @property
    def name(self) -> str:
        """``static`` or ``static:star``."""
        return f"static:{self._wanted}" if self._wanted else "static"

    def begin(self, episode: EpisodeContext) -> None:
        """Raises ConfigError when its topology is not in the arm's set."""
        if self._wanted and self._wanted not in episode.topologies:
            raise ConfigError(
                f"{self.name}: {self._wanted!r} is not in the arm's topologies",
                f"known: {', '.join(episode.topologies)}",
            )
        self._topology = self._wanted or episode.topologies[0]

    def decide(self, observation: Observation) -> Decision:
        """Its topology, then STAY."""
        return Decision(STAY if observation.topology else self._topology)

    def learn(self, transition: Transition) -> None:
        """Nothing to learn."""
