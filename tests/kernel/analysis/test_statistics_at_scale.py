"""The same guarantees as in the small tests, with enough draws to see a percent."""

from __future__ import annotations

import numpy as np
import pytest

from apex_framework.analysis import EpisodeRow, Word, decide, lift_between, mean_interval

STATICS = ("static:star", "static:chain", "static:flat")

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("clusters", [8, 15, 29, 30, 60])
def test_coverage_of_clustered_paired_differences(clusters: int) -> None:
    """400 draws of -1, 0, 1 differences with module effects; nominal 95 %, at least 92 % wanted."""
    rng = np.random.default_rng(clusters)
    names = [str(i // 7) for i in range(clusters * 7)]
    hits = 0
    for draw in range(400):
        shift = np.repeat(rng.normal(0, 0.08, clusters), 7)
        u = rng.random(clusters * 7)
        values = (u < 0.15 + shift).astype(float) - (u > 0.90 + shift).astype(float)
        interval = mean_interval(values.tolist(), names, seed=draw)
        hits += interval.low <= 0.05 <= interval.high
    assert hits / 400 >= 0.92


@pytest.mark.parametrize("statics", [1, 3])
def test_null_environment_false_better_at_most_five_percent_in_three_hundred_worlds(statics: int) -> None:
    """Guard 7. With 300 worlds more than 21 false verdicts would refute 5 %."""
    rng = np.random.default_rng(statics)
    rivals = ("single", *STATICS[:statics])
    false = 0
    for _ in range(300):
        difficulty = rng.random(100)
        rows = []
        for arm in ("bandit_v1", *rivals):
            solved = rng.random(100) < difficulty
            rows += [EpisodeRow(arm, f"t{t}", 0, bool(solved[t]), 1, 1, 0, 0, "done", f"m{t % 40}") for t in range(100)]
        lifts = {rival: lift_between(rows, "bandit_v1", rival) for rival in rivals}
        false += decide("bandit_v1", lifts, statics=STATICS[:statics], single="single").word is Word.BETTER
    assert false <= 21
