"""Intervals and tests against published values and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from apex_framework.analysis import (
    bca_interval,
    clopper_pearson_upper,
    holm,
    mcnemar_exact,
    mcnemar_mid_p,
    mean_interval,
    newcombe_paired,
    sign_flip_interval,
    sign_flip_p,
    wilson,
)


@pytest.mark.parametrize(
    ("violations", "trials", "percent"), [(0, 300, 0.994), (1, 500, 0.945), (2, 500, 1.254), (0, 100, 2.951)]
)
def test_clopper_pearson_gold_values(violations: int, trials: int, percent: float) -> None:
    assert 100 * clopper_pearson_upper(violations, trials) == pytest.approx(percent, abs=6e-4)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_clopper_pearson_equals_scipy(counts: tuple[int, int]) -> None:
    k, n = counts
    expected = stats.binomtest(k, n, alternative="less").proportion_ci(0.95, method="exact").high
    assert clopper_pearson_upper(k, n) == pytest.approx(expected, rel=1e-9)


def test_299_clean_episodes_certify_one_percent_and_298_do_not() -> None:
    assert clopper_pearson_upper(0, 299) <= 0.01 < clopper_pearson_upper(0, 298)


def test_wilson_equals_scipy() -> None:
    expected = stats.binomtest(7, 40).proportion_ci(0.95, method="wilson")
    interval = wilson(7, 40)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_newcombe_equals_its_published_example() -> None:
    # Newcombe 1998, table III: counts 36, 12, 2, 0 by method 10.
    def interval(both: int, ours: int, theirs: int, neither: int) -> tuple[float, float]:
        x = [1.0] * (both + ours) + [0.0] * (theirs + neither)
        y = [1.0] * both + [0.0] * ours + [1.0] * theirs + [0.0] * neither
        found = newcombe_paired(x, y)
        return found.low, found.high

    assert interval(36, 12, 2, 0) == pytest.approx((0.0569, 0.3404), abs=5e-5)


@given(st.integers(1, 300), st.floats(0, 1))
def test_agreeing_arms_still_have_an_interval_of_positive_width(n: int, share: float) -> None:
    both = [float(i < share * n) for i in range(n)]
    interval = newcombe_paired(both, both)
    assert interval.low < 0 < interval.high


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_bca_equals_scipy_when_every_task_is_its_own_cluster(seed: int) -> None:
    values = np.random.default_rng(seed).choice([-1.0, 0.0, 1.0], 80, p=[0.1, 0.7, 0.2])
    expected = stats.bootstrap(
        (values,), np.mean, method="BCa", n_resamples=10_000, rng=np.random.default_rng(seed)
    ).confidence_interval
    found = bca_interval(values.tolist(), [str(i) for i in range(80)], seed=seed)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_clusters_widen_the_interval() -> None:
    rng = np.random.default_rng(4)
    modules = rng.normal(0, 0.3, 40)
    values = [float(m) for m in modules for _ in range(8)]
    clustered = bca_interval(values, [str(i // 8) for i in range(320)])
    alone = bca_interval(values, [str(i) for i in range(320)])
    assert clustered.high - clustered.low > 2 * (alone.high - alone.low)


def test_clusters_with_equal_means_do_not_make_an_interval_of_no_width() -> None:
    values, clusters = [1.0, 0.0] * 40, [str(i // 2) for i in range(80)]
    interval = mean_interval(values, clusters)
    assert interval.high - interval.low > 0.1
    assert "do not differ" in interval.method


def test_the_same_seed_gives_the_same_interval() -> None:
    values, clusters = [float(i % 3 - 1) for i in range(90)], [str(i % 45) for i in range(90)]
    assert bca_interval(values, clusters, seed=3) == bca_interval(values, clusters, seed=3)


def test_few_clusters_use_sign_flips_and_say_so() -> None:
    values, clusters = [float(i % 4 == 0) for i in range(80)], [str(i % 20) for i in range(80)]
    assert mean_interval(values, clusters).method == "sign flips of 20 clusters"
    assert mean_interval(values, [str(i % 40) for i in range(80)]).method == "BCa over 40 clusters"
    assert sign_flip_interval(values, [str(i % 5) for i in range(80)]).method.endswith("too few for a bound")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=6, max_size=11))
def test_the_sign_flip_interval_inverts_the_sign_flip_test(values: list[int]) -> None:
    clusters = [str(i) for i in range(len(values))]
    interval = sign_flip_interval([float(v) for v in values], clusters)
    # Means just outside are rejected one-sided at 2.5 %, means just inside are not.
    inside = sign_flip_p([v - (interval.low + 1e-6) for v in values], clusters)
    outside = sign_flip_p([v - (interval.low - 1e-6) for v in values], clusters)
    assert outside <= 0.05 + 1e-9 <= inside + 0.05 + 1e-9
    assert interval.low <= sum(values) / len(values) <= interval.high


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (10, 3), (3, 10), (25, 25), (40, 12)])
def test_mcnemar_equals_binomial_tests(wins: int, losses: int) -> None:
    n = wins + losses
    assert mcnemar_exact(wins, losses) == pytest.approx(stats.binomtest(wins, n).pvalue if n else 1.0)
    if n and wins != losses:
        tail = stats.binom.cdf(min(wins, losses), n, 0.5) - 0.5 * stats.binom.pmf(wins, n, 0.5)
        assert mcnemar_mid_p(wins, losses) == pytest.approx(2 * tail)
    assert mcnemar_mid_p(wins, losses) <= mcnemar_exact(wins, losses) <= 1.0


def test_holm_on_a_worked_example() -> None:
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})


def test_coverage_of_the_clustered_intervals() -> None:
    """Small: 60 draws each with 40 and 15 clusters of correlated tasks; 95 % nominal."""
    rng = np.random.default_rng(11)
    for clusters in (40, 15):
        hits = 0
        names = [str(i // 6) for i in range(clusters * 6)]
        for draw in range(60):
            shift = np.repeat(rng.normal(0, 0.2, clusters), 6)
            values = shift + rng.normal(0.1, 0.4, clusters * 6)
            interval = mean_interval(values.tolist(), names, seed=draw)
            hits += interval.low <= 0.1 <= interval.high
        assert hits >= 51  # a 95 % interval falls below this with probability 1 in 1,000
