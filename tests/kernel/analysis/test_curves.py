"""Success over budgets: bands that hold for all rungs at once, and ladders that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from apex_framework.analysis import EpisodeRow, RunData, rungs_of, success_curves
from apex_framework.errors import NotComparableError

BUDGETS = (10_000, 30_000, 100_000)


def ladder(rng: np.random.Generator, clusters: int, chances: tuple[float, ...]) -> dict[int, list[EpisodeRow]]:
    effect = np.repeat(rng.uniform(-0.15, 0.15, clusters), 4)
    luck = rng.random(4 * clusters)  # the same task is lucky in every rung
    return {
        budget: [
            EpisodeRow("a", f"t{t}", 0, bool(luck[t] < p + effect[t]), 9_000, 1, 0, 0, "done", f"m{t // 4}")
            for t in range(4 * clusters)
        ]
        for budget, p in zip(BUDGETS, chances, strict=True)
    }


def test_the_simultaneous_band_holds_the_pointwise_intervals_and_names_its_method() -> None:
    (curve,) = success_curves(ladder(np.random.default_rng(0), 40, (0.3, 0.5, 0.6)), ["a"])
    assert [p.budget for p in curve.points] == list(BUDGETS)
    assert curve.method == "simultaneous, bootstrap over 40 clusters"
    for point in curve.points:
        assert point.band.low < point.success < point.band.high
        assert point.band.high - point.band.low > point.pointwise.high - point.pointwise.low
    (few,) = success_curves(ladder(np.random.default_rng(0), 12, (0.3, 0.5, 0.6)), ["a"])
    assert "wild bootstrap by sign flips of 12 clusters" in few.method
    (none,) = success_curves(ladder(np.random.default_rng(0), 4, (0.3, 0.5, 0.6)), ["a"])
    assert "too few" in none.method and (none.points[0].band.low, none.points[0].band.high) == (0.0, 1.0)


def test_the_band_covers_all_rungs_at_once() -> None:
    """40 ladders of three rungs."""
    rng = np.random.default_rng(5)
    truth, hits = (0.3, 0.5, 0.7), 0
    for draw in range(40):
        (curve,) = success_curves(ladder(rng, 40, truth), ["a"], seed=draw)
        hits += all(p.band.low <= t <= p.band.high for p, t in zip(curve.points, truth, strict=True))
    assert hits >= 34


def test_a_rung_where_all_tasks_end_alike_has_a_band_of_positive_width() -> None:
    (curve,) = success_curves(ladder(np.random.default_rng(0), 40, (-1.0, 0.5, 2.0)), ["a"])
    assert curve.points[0].success == 0.0 and curve.points[0].band.high > 0.0
    assert curve.points[2].success == 1.0 and curve.points[2].band.low < 1.0


def test_violations_and_their_size_stand_beside_each_rung() -> None:
    held = ladder(np.random.default_rng(0), 10, (0.3, 0.5, 0.6))
    over = EpisodeRow("a", "t0", 0, False, 10_250, 1, 0, 0, "done", "m0")
    held[10_000][0] = over
    (curve,) = success_curves(held, ["a"])
    assert (curve.points[0].violations, curve.points[0].overspend) == (1, 250.0)


def test_an_episode_over_budget_counts_although_nobody_could_grade_it_and_its_task_is_left_out() -> None:
    held = ladder(np.random.default_rng(0), 10, (0.3, 0.5, 0.6))
    held[10_000][0] = EpisodeRow("a", "t0", 0, False, 10_250, 1, 0, 0, "infrastructure", "m0")
    held[30_000][1] = EpisodeRow("a", "t1", 0, False, 9_000, 1, 0, 0, "infrastructure", "m0")
    held[100_000][1] = EpisodeRow("a", "t1", 0, False, 100_500, 1, 0, 0, "done", "m0")
    (curve,) = success_curves(held, ["a"])
    assert curve.tasks == 38
    assert [(p.violations, p.overspend) for p in curve.points] == [(1, 250.0), (0, 0.0), (1, 500.0)]


def test_rungs_over_other_tasks_are_refused() -> None:
    held = ladder(np.random.default_rng(0), 10, (0.3, 0.5, 0.6))
    held[30_000].pop()
    with pytest.raises(NotComparableError, match="other tasks at a budget of 30000"):
        success_curves(held, ["a"])


def test_runs_make_a_ladder_when_their_arms_differ_in_the_budget_only() -> None:
    def run(budget: object, **more: object) -> RunData:
        rows = (EpisodeRow("a", "t", 0, True, 1, 1, 0, 0, "done"),)
        return RunData(
            Path(f"r{budget}"), rows, "mini", "dev", "d", arms={"a": {"name": "a", "budget": budget, **more}}
        )

    assert list(rungs_of([run(30_000), run(10_000)])) == [10_000, 30_000]
    with pytest.raises(NotComparableError, match="more than its budget"):
        rungs_of([run(10_000), run(30_000, candidates=4)])
    with pytest.raises(NotComparableError, match="does not tell the budget"):
        rungs_of([run(None)])


def test_runs_of_one_rung_must_agree_on_their_episodes_and_on_the_policy_of_an_arm() -> None:
    def run(name: str, success: bool, policy: str = "p1") -> RunData:
        rows = (EpisodeRow("a", "t", 0, success, 1, 1, 0, 0, "done"),)
        arms = {"a": {"name": "a", "budget": 10_000}}
        return RunData(Path(name), rows, "mini", "dev", "d", arms=arms, policies={"a": policy})

    assert len(rungs_of([run("r", True), run("s", True)])[10_000]) == 1
    with pytest.raises(NotComparableError, match="differs between the runs"):
        rungs_of([run("r", True), run("s", False)])
    with pytest.raises(NotComparableError, match="'a' has another policy in s"):
        rungs_of([run("r", True), run("s", True, "p2")])
