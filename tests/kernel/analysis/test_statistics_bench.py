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
    assert {row["contender"] for row in rows} >= {"scipy"} and len(rows) >= 4
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


def test_every_row_has_the_form_of_a_bench() -> None:
    for row in [*bench.sequential(30, 0), *bench.off_policy(2, 0), *bench.shift_coverage(8, 2, 0)]:
        assert set(row) == {"bench", "case", "contender", "metric", "value", "unit"}
        assert row["bench"] == "statistics" and isinstance(row["value"], float)
