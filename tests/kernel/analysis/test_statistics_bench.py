"""The bench of the statistics, small: its rows, and the planted faults that it would show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apex_framework import analysis
from apex_framework.benches import statistics as bench


def test_exact_tests_and_bca_equal_scipy_to_a_billionth() -> None:
    rows = [row for row in bench.equalities(0) if row["metric"] == "largest difference"]
    assert {row["contender"] for row in rows} == {"scipy", "statsmodels"} and len(rows) == 5
    for row in rows:
        assert isinstance(row["value"], float) and row["value"] < 1e-9, row


def test_simulated_differences_have_the_lift_that_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    means = [np.mean(bench.differences(rng, 40, 0.05)[0]) for _ in range(400)]
    assert np.mean(means) == pytest.approx(0.05, abs=4 * np.std(means) / 20)


def test_coverage_is_seen_and_a_halved_interval_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def covered() -> float:
        (row,) = [row for row in bench.coverage(20, 60, 1) if row["metric"] == "coverage"]
        assert isinstance(row["value"], float)
        return row["value"]

    assert covered() >= 0.85
    whole = analysis.mean_interval

    def half(*args: Any, **options: Any) -> analysis.Interval:
        found = whole(*args, **options)
        centre = (found.low + found.high) / 2
        return replace(found, low=(found.low + centre) / 2, high=(found.high + centre) / 2)

    monkeypatch.setattr(analysis, "mean_interval", half)  # the planted fault
    assert covered() < 0.85


def test_a_null_environment_is_rarely_called_better() -> None:
    assert bench.false_better(40, 0, 0.0) == 0
    assert bench.false_better(40, 0, 0.5) <= 5


def test_clusters_that_differ_make_bets_by_task_call_luck_better_and_kill_a_true_lift() -> None:
    """At ±28 pp in repositories as large as SWE-bench Lite's; the planted fault is the unit."""
    for lift in (0.0, bench.TRUTH):
        found = {
            str(row["contender"]): row["value"] for row in bench.clustered_looks(150, 1, bench.REPOSITORIES, 0.28, lift)
        }
        by_cluster, by_task = found["bets by cluster"], found["bets by task"]
        assert isinstance(by_cluster, float) and isinstance(by_task, float)
        assert by_cluster <= 0.025 and by_task > 0.06


def test_bets_by_cluster_find_a_lift_where_clusters_are_many() -> None:
    (row, _) = bench.clustered_looks(60, 0, bench.MODULES, 0.14, 0.15)
    assert row["metric"] == "better" and isinstance(row["value"], float) and row["value"] > 0.5


def test_every_row_has_the_form_of_a_bench() -> None:
    for row in [*bench.sequential(30, 0), *bench.off_policy(2, 0), *bench.shift_coverage(8, 2, 0)]:
        assert set(row) == {"bench", "case", "contender", "metric", "value", "unit"}
        assert row["bench"] == "statistics" and isinstance(row["value"], float)


@pytest.mark.parametrize(("related", "lift", "contender"), [(-0.25, 0.0, "better"), (0.25, bench.TRUTH, "KILL")])
def test_bets_by_cluster_keep_their_promise_where_lifts_go_with_the_sizes_of_clusters(
    related: float, lift: float, contender: str
) -> None:
    """Means of clusters, which weigh small ones as much as large ones, err in a third of experiments: the lift weighs tasks."""
    (row, _) = bench.clustered_looks(200, 0, bench.UNEQUAL, 0.0, lift, related=related)
    assert row["metric"] == f"false {contender}" and isinstance(row["value"], float) and row["value"] <= 0.025
