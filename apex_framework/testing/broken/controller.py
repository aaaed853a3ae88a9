"""One broken controller per check of the kit: each fails exactly that one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from random import Random

from ...interfaces import STAY, Checkpoint, Controller, Decision, EpisodeContext, Observation, Transition


class Sound:
    """A controller with nothing wrong: random topologies from the episode's seed."""

    def __init__(self) -> None:
        self._topologies: tuple[str, ...] = ()
        self._random = Random(0)
        self._frozen = True

    @property
    def name(self) -> str:
        """Its name."""
        return "sound"

    def begin(self, episode: EpisodeContext) -> None:
        """Seed."""
        self._topologies, self._frozen = episode.topologies, episode.frozen
        self._random = Random(episode.seed)

    def decide(self, observation: Observation) -> Decision:
        """A random topology, or STAY when no switch is possible."""
        if observation.topology and not observation.can_switch:
            return Decision(STAY)
        return Decision(self._random.choice(self._topologies), propensity=1.0 / len(self._topologies))

    def learn(self, transition: Transition) -> None:
        """Nothing."""


class Nameless(Sound):
    """Has an empty name."""

    @property
    def name(self) -> str:
        """Nothing."""
        return ""


class StaysAtTheStart(Sound):
    """Chooses no starting topology."""

    def decide(self, observation: Observation) -> Decision:
        """STAY at decision 0."""
        return super().decide(observation) if observation.topology else Decision(STAY)


class Inventive(Sound):
    """Chooses a topology that nobody has."""

    def decide(self, observation: Observation) -> Decision:
        """``nowhere`` at step 5."""
        return Decision("nowhere") if observation.step == 5 else super().decide(observation)


class Impatient(Sound):
    """Ignores ``can_switch``."""

    def decide(self, observation: Observation) -> Decision:
        """A random topology, always."""
        return super().decide(replace(observation, can_switch=True))


class Impossible(Sound):
    """Says that what it did had no chance."""

    def decide(self, observation: Observation) -> Decision:
        """Propensity 0."""
        return replace(super().decide(observation), propensity=0.0)


class Moody(Sound):
    """Explores by luck of its own while it is trained."""

    def begin(self, episode: EpisodeContext) -> None:
        """Forget the seed when exploring."""
        super().begin(episode)
        if not episode.frozen:
            self._random = Random()


class Nostalgic(Sound):
    """Carries its random state from one episode into the next."""

    def begin(self, episode: EpisodeContext) -> None:
        """Seed only the first time."""
        state = self._random.getstate() if self._topologies else Random(episode.seed).getstate()
        super().begin(episode)
        self._random.setstate(state)


class Restless(Sound):
    """Goes on learning when frozen."""

    def __init__(self) -> None:
        super().__init__()
        self._told = 0

    def begin(self, episode: EpisodeContext) -> None:
        """Seed from what it was told."""
        super().begin(episode)
        self._random = Random(episode.seed + 1_000 * self._told)

    def learn(self, transition: Transition) -> None:
        """Counts."""
        self._told += 1


class Sulking(Sound):
    """Cannot bear denials."""

    def learn(self, transition: Transition) -> None:
        """Raises on a denial."""
        if transition.outcome.denied:
            raise RuntimeError("I was denied")


class Hoarder(Sound):
    """Keeps every observation."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Observation] = []

    def decide(self, observation: Observation) -> Decision:
        """Keep, then decide."""
        self._kept.append(observation)
        return super().decide(observation)


class Slow(Sound):
    """Thinks too long."""

    def decide(self, observation: Observation) -> Decision:
        """Sleeps first."""
        time.sleep(0.012)
        return super().decide(observation)


class Forgetful(Sound):
    """Saves, but loads nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._learned = 0

    def begin(self, episode: EpisodeContext) -> None:
        """Seed from what it learned."""
        super().begin(episode)
        self._random = Random(episode.seed + 1_000 * self._learned)

    def learn(self, transition: Transition) -> None:
        """Counts unless frozen."""
        self._learned += not self._frozen

    def save(self) -> Checkpoint:
        """The count."""
        return Checkpoint({"learned": [float(self._learned)]}, {"controller": "forgetful"})

    def load(self, checkpoint: Checkpoint) -> None:
        """Loses it."""


BROKEN: dict[str, Callable[[], Controller]] = {
    "has_a_name": Nameless,
    "starts_with_a_topology": StaysAtTheStart,
    "chooses_a_known_action": Inventive,
    "stays_when_it_cannot_switch": Impatient,
    "propensity_is_a_probability": Impossible,
    "same_seed_same_decisions": Moody,
    "begin_forgets": Nostalgic,
    "frozen_learns_nothing": Restless,
    "learns_from_every_transition": Sulking,
    "leaves_observations_alone": Hoarder,
    "decides_in_time": Slow,
    "saved_state_decides_alike": Forgetful,
}
"""Check -> a controller that fails it and no other."""
