"""Static, schedule, phase_heuristic, random_switch and per_episode do what their names say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from apex_controllers.per_episode import PerEpisode
from apex_controllers.random_switch import RandomSwitch
from apex_controllers.schedule import PhaseHeuristic, Schedule
from apex_controllers.static import Static
from apex_framework.errors import ConfigError
from apex_framework.interfaces import STAY, Decision, EpisodeContext, Observation, Outcome, Transition

SET = ("star", "chain", "flat")
CONTEXT = EpisodeContext("e", 1, SET, 10_000)
START = Observation(0, "", SET)
LATER = Observation(5, "star", SET)


def test_static_takes_its_topology_and_stays() -> None:
    for spec, start in (("flat", "flat"), ("", "star")):
        controller = Static(spec)
        controller.begin(CONTEXT)
        assert controller.decide(START).action == start
        assert controller.decide(LATER).action == STAY
    with pytest.raises(ConfigError, match="'ring' is not in the arm's topologies"):
        Static("ring").begin(CONTEXT)


def test_a_schedule_follows_the_phase_as_soon_as_it_may_switch() -> None:
    controller = Schedule("flat,chain,star")
    controller.begin(CONTEXT)
    assert controller.decide(START).action == "flat"
    at = replace(LATER, topology="flat", phase="implementation")
    assert controller.decide(replace(at, can_switch=False)).action == STAY
    assert controller.decide(at).action == "chain"
    assert controller.decide(replace(at, topology="chain")).action == STAY
    assert controller.decide(replace(at, phase="debug")).action == "star"


def test_there_are_twenty_seven_schedules() -> None:
    names = set()
    for parts in product(SET, repeat=3):
        controller = Schedule(",".join(parts))
        controller.begin(CONTEXT)
        names.add(controller.name)
    assert len(names) == 27


@pytest.mark.parametrize("spec", ["", "star", "star,flat", "star,,flat", "a,b,c,d"])
def test_a_schedule_needs_three_topologies(spec: str) -> None:
    with pytest.raises(ConfigError, match="needs three topologies"):
        Schedule(spec)


def test_the_phase_heuristic_is_star_flat_chain() -> None:
    controller = PhaseHeuristic()
    controller.begin(CONTEXT)
    by_phase = {
        p: controller.decide(replace(LATER, topology="x", phase=p)).action
        for p in ("planning", "debug", "implementation")
    }
    assert by_phase == {"planning": "star", "implementation": "flat", "debug": "chain"}
    assert controller.name == "phase_heuristic"


def test_random_switch_keeps_its_rate_and_its_propensities() -> None:
    controller = RandomSwitch("0.3")
    controller.begin(CONTEXT)
    decisions = [controller.decide(LATER) for _ in range(4_000)]
    counts = Counter(d.action for d in decisions)
    assert counts["star"] == 0
    assert counts[STAY] / 4_000 == pytest.approx(0.7, abs=0.03)
    assert {d.action: d.propensity for d in decisions} == pytest.approx({STAY: 0.7, "chain": 0.15, "flat": 0.15})


@pytest.mark.parametrize("spec", ["often", "1.5", "-0.1", "nan"])
def test_an_impossible_rate_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="rate"):
        RandomSwitch(spec)


def test_per_episode_chooses_once_and_learns_from_the_end() -> None:
    controller = PerEpisode("none")
    for seed in range(30):
        controller.begin(replace(CONTEXT, seed=seed, frozen=False))
        chosen = controller.decide(START).action
        assert controller.decide(LATER).action == STAY
        controller.learn(Transition(START, Decision(chosen), Outcome()))
        controller.learn(Transition(LATER, Decision(STAY), Outcome(terminal=True, success=chosen == "chain")))
    for seed in range(10):
        controller.begin(replace(CONTEXT, seed=seed))
        assert controller.decide(START).action == "chain"
