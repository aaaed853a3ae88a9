"""Interval of an arm's success over few clusters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from apex_framework.analysis import share_interval, wilson


def test_of_independent_tasks_it_is_clopper_pearsons_up_to_the_spread_of_a_sample() -> None:
    found = share_interval([1.0] * 4 + [0.0] * 12, [str(i) for i in range(16)])
    exact = stats.binomtest(4, 16).proportion_ci(0.95, method="exact")
    # p (1 - p) / error² counts n - 1 tasks, for the error has Bessel's correction.
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=0.015)
    assert found.method == "Clopper-Pearson at 15.0 effective tasks"


def test_what_was_seen_is_not_refuted() -> None:
    found = share_interval([1.0] * 4 + [0.0] * 12, [str(i // 2) for i in range(16)])
    assert 0 < found.low < 0.25 < found.high < 1


def test_tasks_that_always_agree_count_once() -> None:
    alone = share_interval([1.0, 0.0, 0.0, 1.0, 0.0, 0.0], list("abcdef"))
    twice = share_interval([1.0, 0.0, 0.0, 1.0, 0.0, 0.0] * 2, list("abcdef") * 2)
    assert twice.high - twice.low >= alone.high - alone.low


@pytest.mark.parametrize("values", [[0.0] * 25, [1.0] * 9])
def test_where_all_end_alike_it_is_wilsons(values: list[float]) -> None:
    clusters = [str(i % 3) for i in range(len(values))]
    assert share_interval(values, clusters) == wilson(sum(values), len(values))


def test_one_cluster_bears_no_bound() -> None:
    found = share_interval([1.0, 0.0], ["a", "a"])
    assert (found.low, found.high, found.bounded) == (0.0, 1.0, False)


def test_no_values_are_no_share() -> None:
    with pytest.raises(ValueError, match="no proportion"):
        share_interval([], [])


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_it_covers_where_clusters_are_few_and_unlike(share: float) -> None:
    random = np.random.default_rng(7)
    held, experiments = 0, 300
    for _ in range(experiments):
        sizes = random.integers(1, 8, 12)
        chances = np.repeat(share * (1 + 0.6 * random.choice([-1, 1], 12)), sizes)
        clusters = [str(c) for c in np.repeat(np.arange(12), sizes)]
        found = share_interval((random.random(len(chances)) < chances).astype(float).tolist(), clusters)
        held += found.low <= share <= found.high
    assert held / experiments >= 0.94
