"""Hodges-Lehmann shifts of costs against scipy, against the definition, and under clusters."""

from __future__ import annotations

import importlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from apex_framework.analysis import EpisodeRow, cost_shifts, hodges_lehmann, holm, mcnemar_exact, paired_shift
from apex_framework.errors import NotComparableError


def row(arm: str, task: int, tokens: int, *, wall: float | None = None, status: str = "done") -> EpisodeRow:
    return EpisodeRow(arm, f"t{task}", 0, True, tokens, 1, 0, 0, status, f"m{task % 8}", wall_ms=wall)


@pytest.mark.parametrize("seed", range(4))
def test_the_p_value_is_scipys_wilcoxon(seed: int) -> None:
    d = np.random.default_rng(seed).normal(0.3, 1.0, 30)
    assert paired_shift(d.tolist()).p == pytest.approx(float(stats.wilcoxon(d, method="exact").pvalue), abs=1e-9)
    many = np.random.default_rng(seed).normal(0.3, 1.0, 120)
    expected = float(stats.wilcoxon(many, method="approx").pvalue)
    assert paired_shift(many.tolist()).p == pytest.approx(expected, abs=1e-9)


def test_mcnemar_and_holm_are_statsmodels() -> None:
    tables = importlib.import_module("statsmodels.stats.contingency_tables")
    for wins, losses in itertools.product(range(30), (1, 7, 12, 40)):
        expected = float(tables.mcnemar([[0, wins], [losses, 0]], exact=True).pvalue)
        assert mcnemar_exact(wins, losses) == pytest.approx(expected, abs=1e-9)
    several = importlib.import_module("statsmodels.stats.multitest")
    rng = np.random.default_rng(0)
    for n in (1, 2, 11, 40):
        p = rng.random(n) ** 3
        adjusted = several.multipletests(p, method="holm")[1]
        assert list(holm({str(i): float(x) for i, x in enumerate(p)}).values()) == pytest.approx(adjusted, abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=12))
def test_the_estimate_is_the_median_of_pairwise_means(d: list[float]) -> None:
    means = [(a + b) / 2 for a, b in itertools.combinations_with_replacement(d, 2)]
    assert hodges_lehmann(d) == pytest.approx(float(np.median(means)), abs=1e-9)


@pytest.mark.parametrize(("n", "out"), [(10, 9), (20, 53), (6, 1)])
def test_the_exact_interval_uses_the_tabled_order_statistics(n: int, out: int) -> None:
    # Critical signed-rank sums at two-sided 5 % are 8 for n = 10, 52 for 20, 0 for 6; the bound is the next mean.
    d = np.random.default_rng(n).normal(0, 1, n)
    means = sorted((d[i] + d[j]) / 2 for i in range(n) for j in range(i, n))
    interval = paired_shift(d.tolist()).interval
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((means[out - 1], means[-out]))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(-50, 50))
def test_the_interval_moves_with_the_shift_and_excludes_zero_as_the_test_does(seed: int, move: float) -> None:
    d = np.random.default_rng(seed).normal(0.5, 1, 12)
    found, moved = paired_shift(d.tolist()), paired_shift((d + move).tolist())
    assert found.interval is not None and moved.interval is not None
    assert moved.interval.low == pytest.approx(found.interval.low + move, abs=1e-6)
    # A bound that touches zero belongs to the first sum that is not rejected.
    assert (found.p <= 0.05) == (not found.interval.low <= 0 <= found.interval.high)


def test_clusters_widen_the_interval_and_are_named() -> None:
    rng = np.random.default_rng(1)
    d = np.repeat(rng.normal(0, 1, 20), 5) + rng.normal(0, 0.1, 100)
    names = [str(i // 5) for i in range(100)]
    clustered, alone = paired_shift(d.tolist(), names), paired_shift(d.tolist())
    assert clustered.interval is not None and alone.interval is not None
    assert clustered.interval.high - clustered.interval.low > 1.5 * (alone.interval.high - alone.interval.low)
    assert clustered.method == "signed ranks, sign flips of 20 clusters"
    assert paired_shift(d[:25].tolist(), names[:25]).interval is None  # five clusters bear no 97.5 % bound


def test_equal_one_and_impossible_differences() -> None:
    same = paired_shift([3.0, 3.0, 3.0])
    assert (same.estimate, same.p, same.interval) == (3.0, 0.25, None) and "all differences are equal" in same.method
    assert paired_shift([0.0] * 20).p == 1.0
    assert paired_shift([100.0] * 20).p == 2.0**-19
    assert paired_shift([-7.0] * 20, [str(i // 2) for i in range(20)]).p == 2.0**-9
    assert paired_shift([5.0]).p == 1.0
    assert paired_shift([5.0]).interval is None
    for wrong in ([], [1.0, math.nan], [math.inf, 1.0]):
        with pytest.raises(ValueError):
            paired_shift(wrong)


def test_costs_leave_out_failures_of_infrastructure_and_quantities_that_are_not_there() -> None:
    rows = [row("a", t, 100 + 10 * t) for t in range(12)] + [row("b", t, 90 + 9 * t) for t in range(12)]
    rows += [row("a", 50, 10**6, status="infrastructure"), row("b", 50, 1)]
    (tokens,) = cost_shifts(rows, [("a", "b")])
    assert (tokens.quantity, tokens.unit, tokens.tasks) == ("tokens", "tokens", 12)
    assert tokens.estimate == pytest.approx(10 + 5.5)
    with_time = [row(r.arm, int(r.task_id[1:]), r.tokens, wall=5.0) for r in rows[:24]]
    assert [s.quantity for s in cost_shifts(with_time, [("a", "b")])] == ["tokens", "wall_ms"]
    with pytest.raises(NotComparableError, match="no task"):
        cost_shifts(rows, [("a", "c")])


def test_p_values_asked_for_together_are_corrected_by_holm() -> None:
    rng = np.random.default_rng(0)
    rows = [row(arm, t, int(rng.integers(1_000))) for arm in "abc" for t in range(20)]
    shifts = cost_shifts(rows, [("a", "b"), ("a", "c")])
    assert max(s.p_holm for s in shifts) >= max(s.p for s in shifts)
    assert min(s.p_holm for s in shifts) == pytest.approx(min(1.0, 2 * min(s.p for s in shifts)))
