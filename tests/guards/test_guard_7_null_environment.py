"""Guard 7: where topologies do not differ, nothing is called BETTER."""

from __future__ import annotations

import random

import pytest
from ears import NULL
from stage import Stage, plain

from apex_framework.analysis import EpisodeRow, Word, decide, lift_between

ARMS = ("bandit_v1", *(f"static:{name}" for name in NULL), "single")


def test_identical_topologies_under_three_names_give_identical_episodes(ears: Stage) -> None:
    results = [plain(ears.play("clamp", 1, name="a", controller=f"static:{name}", topologies=NULL)) for name in NULL]
    for result in results:
        del result["decisions"], result["record"]["topologies"]
    assert results[0] == results[1] == results[2]


def null_rows(rng: random.Random, tasks: int = 60, clusters: int = 20, noise: float = 0.15) -> list[EpisodeRow]:
    """Arms that differ by luck only: each task has its own difficulty, each arm now and then another outcome."""
    rows = []
    for number in range(tasks):
        chance = rng.betavariate(0.4, 0.6)
        usual = rng.random() < chance
        for arm in ARMS:
            success = (rng.random() < chance) if rng.random() < noise else usual
            rows.append(EpisodeRow(arm, f"t{number}", 0, success, 5_000, 10, 0, 0, "finished", f"c{number % clusters}"))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.15, 0.6])
def test_false_better_in_at_most_five_percent_of_null_runs(noise: float) -> None:
    runs, better, worse = 40, 0, 0
    for seed in range(runs):
        rows = null_rows(random.Random(seed), noise=noise)
        lifts = {against: lift_between(rows, ARMS[0], against, seed=seed) for against in ARMS[1:]}
        word = decide(ARMS[0], lifts, statics=ARMS[1:4], single="single").word
        better += word is Word.BETTER
        worse += word is Word.WORSE
    assert better <= 0.05 * runs and worse <= 0.05 * runs


@pytest.mark.slow
def test_a_true_difference_is_still_seen() -> None:
    rows = null_rows(random.Random(7), tasks=200, noise=0.1)
    helped = [r if r.arm != ARMS[0] else EpisodeRow(**{**_fields(r), "success": r.success or i % 3 == 0})
              for i, r in enumerate(rows)]  # fmt: skip
    lifts = {against: lift_between(helped, ARMS[0], against) for against in ARMS[1:]}
    assert decide(ARMS[0], lifts, statics=ARMS[1:4], single="single").word is Word.BETTER


def _fields(row: EpisodeRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in EpisodeRow.__slots__}
