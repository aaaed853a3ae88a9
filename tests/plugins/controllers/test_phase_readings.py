"""What a schedule takes for the phase: seen, shuffled, exact."""

from __future__ import annotations

import pytest

from apex_controllers.schedule import PHASES, PhaseHeuristic, Schedule
from apex_framework.errors import ConfigError
from apex_framework.interfaces import EpisodeContext, Observation

TOPOLOGIES = ("star", "chain", "flat")


def wanted(controller: Schedule, seed: int, **seen: object) -> str:
    controller.begin(EpisodeContext("e", seed, TOPOLOGIES, 10_000))
    return controller.decide(Observation(0, "", TOPOLOGIES, **seen)).action  # type: ignore[arg-type]  # fields by name


def test_shuffled_phases_are_a_permutation_but_never_the_true_one() -> None:
    mappings = set()
    for seed in range(60):
        found = tuple(wanted(Schedule("star,flat,chain", phase="shuffled"), seed, phase=phase) for phase in PHASES)
        assert sorted(found) == sorted(TOPOLOGIES)
        assert found != ("star", "flat", "chain")
        mappings.add(found)
    assert len(mappings) == 5


def test_the_same_seed_shuffles_the_same_way() -> None:
    one, other = (PhaseHeuristic(phase="shuffled") for _ in range(2))
    assert [wanted(one, 7, phase=p) for p in PHASES] == [wanted(other, 7, phase=p) for p in PHASES]


@pytest.mark.parametrize(
    ("edits", "pass_rate", "topology"),
    [(0, None, "star"), (0, 0.5, "star"), (1, None, "flat"), (1, 1.0, "flat"), (2, 0.5, "chain")],
)
def test_exact_phases_follow_the_events_whatever_the_heuristic_says(
    edits: int, pass_rate: float | None, topology: str
) -> None:
    for phase in ("", *PHASES):
        assert wanted(PhaseHeuristic(phase="exact"), 1, edits=edits, pass_rate=pass_rate, phase=phase) == topology


def test_an_unknown_reading_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown phase 'oracle'"):
        Schedule("star,flat,chain", phase="oracle")
