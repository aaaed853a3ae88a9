"""Conformance kit of controllers."""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from ..interfaces import STAY, Controller, Decision, EpisodeContext, Observation, Outcome, Trainable, Transition
from .conformance import run_checks

KIND: Final = "controller"
STEPS: Final = 12
LIMIT_MS: Final = 10.0
"""Half of all decisions must take less: above it at the 95th percentile, the runtime pins the topology."""

Make = Callable[[], Controller]


def check_controller(make: Make, topologies: tuple[str, ...] = ("star", "chain", "flat")) -> None:
    """Run every check on fresh controllers. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "has_a_name": lambda: check_has_a_name(make),
            "starts_with_a_topology": lambda: check_starts_with_a_topology(make, topologies),
            "chooses_a_known_action": lambda: check_chooses_a_known_action(make, topologies),
            "stays_when_it_cannot_switch": lambda: check_stays_when_it_cannot_switch(make, topologies),
            "propensity_is_a_probability": lambda: check_propensity_is_a_probability(make, topologies),
            "same_seed_same_decisions": lambda: check_same_seed_same_decisions(make, topologies),
            "begin_forgets": lambda: check_begin_forgets(make, topologies),
            "frozen_learns_nothing": lambda: check_frozen_learns_nothing(make, topologies),
            "learns_from_every_transition": lambda: check_learns_from_every_transition(make, topologies),
            "leaves_observations_alone": lambda: check_leaves_observations_alone(make, topologies),
            "decides_in_time": lambda: check_decides_in_time(make, topologies),
            "saved_state_decides_alike": lambda: check_saved_state_decides_alike(make, topologies),
        },
    )


def check_has_a_name(make: Make) -> None:
    """It says what it is."""
    name = make().name
    assert isinstance(name, str) and name, f"name is {name!r}"


def check_starts_with_a_topology(make: Make, topologies: tuple[str, ...]) -> None:
    """Decision 0 chooses the starting topology, even when no switch is possible."""
    for can_switch in (True, False):
        controller = make()
        controller.begin(_context(topologies))
        action = controller.decide(replace(_observation(0, "", topologies), can_switch=can_switch)).action
        assert action in topologies, f"decision 0 is {action!r}"


def check_chooses_a_known_action(make: Make, topologies: tuple[str, ...]) -> None:
    """Every decision is STAY or a topology of the episode."""
    for transition in _episode(make(), _context(topologies)):
        action = transition.decision.action
        assert action == STAY or action in topologies, f"unknown action {action!r}"


def check_stays_when_it_cannot_switch(make: Make, topologies: tuple[str, ...]) -> None:
    """After decision 0, STAY while ``can_switch`` is false."""
    for seed in range(3):
        for t in _episode(make(), _context(topologies, seed=seed)):
            if t.observation.topology and not t.observation.can_switch:
                assert t.decision.action == STAY, f"{t.decision.action!r} while no switch is possible"


def check_propensity_is_a_probability(make: Make, topologies: tuple[str, ...]) -> None:
    """Above 0, since it was chosen, and at most 1; epsilon within [0, 1]."""
    for frozen in (True, False):
        for t in _episode(make(), _context(topologies, frozen=frozen)):
            d = t.decision
            assert 0.0 < d.propensity <= 1.0 + 1e-12, f"propensity {d.propensity}"
            assert 0.0 <= d.epsilon <= 1.0, f"epsilon {d.epsilon}"


def check_same_seed_same_decisions(make: Make, topologies: tuple[str, ...]) -> None:
    """Two fresh controllers with the same history decide alike, learning included."""
    histories: list[list[Decision]] = []
    for controller in (make(), make()):
        decisions: list[Decision] = []
        for seed in range(3):
            for t in _episode(controller, _context(topologies, seed=seed, frozen=False)):
                decisions.append(t.decision)
                controller.learn(t)
        histories.append(decisions)
    assert histories[0] == histories[1], "same seeds, other decisions"


def check_begin_forgets(make: Make, topologies: tuple[str, ...]) -> None:
    """A frozen controller decides alike in two equal episodes, one after the other."""
    controller = make()
    first = [t.decision for t in _episode(controller, _context(topologies, seed=5))]
    second = [t.decision for t in _episode(controller, _context(topologies, seed=5))]
    assert first == second, "the second of two equal episodes went otherwise"


def check_frozen_learns_nothing(make: Make, topologies: tuple[str, ...]) -> None:
    """What a frozen controller is told changes nothing."""
    told, untold = make(), make()
    for controller in (told, untold):
        for t in [*_episode(controller, _context(topologies))]:
            if controller is told:
                controller.learn(t)
    runs = [[t.decision for t in _episode(c, _context(topologies, seed=1))] for c in (told, untold)]
    assert runs[0] == runs[1], "a frozen controller decides otherwise after it was told what followed"


def check_learns_from_every_transition(make: Make, topologies: tuple[str, ...]) -> None:
    """Denials, aborts, deferrals, successes and failures are all transitions."""
    controller = make()
    outcomes = (
        Outcome(denied=2, denied_tokens=900),
        Outcome(aborted=True),
        Outcome(deferred=True),
        Outcome(duration=3, tokens=400, pass_rate_delta=-0.5, phase_advanced=True, switched=True),
    )
    for success in (True, False):
        for t in [*_episode(controller, _context(topologies, frozen=False), success=success)]:
            outcome = t.outcome if t.outcome.terminal else outcomes[t.observation.step % len(outcomes)]
            controller.learn(replace(t, outcome=outcome))


def check_leaves_observations_alone(make: Make, topologies: tuple[str, ...]) -> None:
    """``decide`` neither changes an observation nor keeps it."""
    controller = make()
    controller.begin(_context(topologies))
    for step, topology in enumerate(("", *topologies)):
        observation = _observation(step, topology, topologies)
        before = copy.deepcopy(observation)
        references = sys.getrefcount(observation)
        controller.decide(observation)
        assert observation == before, "the observation was changed"
        assert sys.getrefcount(observation) <= references, "the observation was kept"


def check_decides_in_time(make: Make, topologies: tuple[str, ...]) -> None:
    """Half of the decisions take less than ``LIMIT_MS``."""
    controller = make()
    controller.begin(_context(topologies))
    controller.decide(_observation(0, "", topologies))
    taken: list[float] = []
    for step in range(1, STEPS):
        observation = _observation(step, topologies[0], topologies)
        start = time.perf_counter()
        controller.decide(observation)
        taken.append((time.perf_counter() - start) * 1e3)
    median = sorted(taken)[len(taken) // 2]
    assert median < LIMIT_MS, f"a decision takes {median:.1f} ms"


def check_saved_state_decides_alike(make: Make, topologies: tuple[str, ...]) -> None:
    """If it is Trainable: a fresh controller with its saved state decides as it does, and settings are JSON."""
    controller = make()
    if not isinstance(controller, Trainable):
        return
    for seed in range(4):
        for t in [*_episode(controller, _context(topologies, seed=seed, frozen=False), success=seed % 2 == 0)]:
            controller.learn(t)
    checkpoint, other = controller.save(), make()
    assert isinstance(other, Trainable)
    json.dumps(dict(checkpoint.meta))
    other.load(checkpoint)
    runs = [[t.decision for t in _episode(c, _context(topologies, seed=9))] for c in (controller, other)]
    assert runs[0] == runs[1], "a loaded state decides otherwise than the saved one"


def _context(topologies: tuple[str, ...], *, seed: int = 0, frozen: bool = True) -> EpisodeContext:
    return EpisodeContext(f"kit/{seed}", seed, topologies, 10_000, 2, frozen)


def _observation(step: int, topology: str, topologies: tuple[str, ...]) -> Observation:
    roles = ("planner", "coder", "runner", "critic", "coder")
    return Observation(
        step=step,
        topology=topology,
        topologies=topologies,
        steps_since_switch=step % 4,
        can_switch=step % 3 != 1,
        recent_roles=roles[: min(step, 5)],
        headroom={"episode": 1.0 - step / 20},
        tokens_used=step * 500,
        token_budget=10_000,
        test_runs=step // 3,
        edits=step // 4,
        pass_rate=None if step < 3 else min(1.0, step / STEPS),
        phase=("planning", "implementation", "debug")[step * 3 // STEPS] if step < STEPS else "debug",
        extra={"health": 1.0},
    )


def _episode(controller: Controller, context: EpisodeContext, *, success: bool = True) -> Iterator[Transition]:
    """An episode in which every allowed choice of a known topology is carried out."""
    controller.begin(context)
    topology = ""
    for step in range(STEPS):
        observation = _observation(step, topology, context.topologies)
        decision = controller.decide(observation)
        chosen = decision.action if decision.action in context.topologies else topology
        switched = bool(chosen != topology and (not topology or observation.can_switch))
        topology = (chosen if switched else topology) or context.topologies[0]
        last = step == STEPS - 1
        outcome = Outcome(
            tokens=500, elapsed_ms=10.0, switched=switched, terminal=last, success=last and success, pass_rate_delta=0.1
        )
        following = None if last else _observation(step + 1, topology, context.topologies)
        yield Transition(observation, decision, outcome, following)
