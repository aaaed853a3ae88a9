"""Schedule: a fixed topology per heuristic phase. The phase rules are the kernel's (spec/apex-mvp.md section 5)."""

from __future__ import annotations

from random import Random

from apex_framework.errors import ConfigError
from apex_framework.interfaces import STAY, Decision, EpisodeContext, Observation, Transition

PHASES = ("planning", "implementation", "debug")
"""The order in which a spec names topologies."""

READINGS = ("seen", "shuffled", "exact")
"""What a schedule takes for the phase."""


class Schedule:
    """``schedule:a,b,c`` is topology a while planning, b while implementing, c while debugging.

    With three topologies there are 27 of them. An empty or unknown phase counts as planning.

    ``phase`` is for ablations. ``seen``: the kernel's heuristic. ``shuffled``: it, with the three names exchanged by a
    permutation drawn per episode, never the identity: as many switches at the same moments, without their meaning.
    ``exact``: read from the episode's events themselves, without window or delay (planning until the first change,
    debug while the last test run fails, implementation otherwise); the nearest to an oracle, as no phase was ever labelled.
    """

    def __init__(self, spec: str = "", *, phase: str = "seen") -> None:
        if phase not in READINGS:
            raise ConfigError(f"schedule: unknown phase {phase!r}", f"known: {', '.join(READINGS)}")
        self._reading = phase
        self._shuffled = dict(zip(PHASES, PHASES, strict=True))
        parts = tuple(p.strip() for p in spec.split(","))
        if len(parts) != len(PHASES) or not all(parts):
            raise ConfigError(f"schedule needs three topologies, not {spec!r}", "e.g. schedule:star,flat,chain")
        self._by_phase = dict(zip(PHASES, parts, strict=True))

    @property
    def name(self) -> str:
        """``schedule:a,b,c``."""
        return f"schedule:{','.join(self._by_phase.values())}"

    def begin(self, episode: EpisodeContext) -> None:
        """Raises ConfigError when one of its topologies is not in the arm's set."""
        if self._reading == "shuffled":
            order = list(PHASES)
            draw = Random(f"shuffled_phase:{episode.seed}")
            while tuple(order) == PHASES:
                draw.shuffle(order)
            self._shuffled = dict(zip(PHASES, order, strict=True))
        for wanted in self._by_phase.values():
            if wanted not in episode.topologies:
                raise ConfigError(
                    f"{self.name}: {wanted!r} is not in the arm's topologies", f"known: {', '.join(episode.topologies)}"
                )

    def decide(self, observation: Observation) -> Decision:
        """The phase's topology as soon as a switch is possible."""
        wanted = self._by_phase[self._phase(observation)]
        if not observation.topology:
            return Decision(wanted)
        if wanted == observation.topology or not observation.can_switch:
            return Decision(STAY)
        return Decision(wanted)

    def learn(self, transition: Transition) -> None:
        """Nothing to learn."""

    def _phase(self, observation: Observation) -> str:
        if self._reading == "exact":
            if not observation.edits:
                return "planning"
            return "implementation" if observation.pass_rate in (None, 1.0) else "debug"
        seen = observation.phase if observation.phase in self._by_phase else "planning"
        return self._shuffled[seen]


class PhaseHeuristic(Schedule):
    """The schedule that a person would write down before seeing any result.

    Planning: star, because one hub that hears everyone agrees on a plan soonest. Implementation: flat, because the
    coder and the runner exchange patches and outcomes most and direct edges save the relays. Debug: chain, because
    a failure should pass every role in turn, the critic included, before the next attempt.
    """

    def __init__(
        self, planning: str = "star", implementation: str = "flat", debug: str = "chain", *, phase: str = "seen"
    ) -> None:
        super().__init__(f"{planning},{implementation},{debug}", phase=phase)
        self._is_default = (planning, implementation, debug) == ("star", "flat", "chain")

    @property
    def name(self) -> str:
        """``phase_heuristic``, with its mapping when it is not the declared one."""
        return "phase_heuristic" if self._is_default else f"phase_heuristic:{','.join(self._by_phase.values())}"
