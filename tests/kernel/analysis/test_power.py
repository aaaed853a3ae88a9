"""Power and minimum detectable lift against the published table."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.stats import binom

from apex_framework.analysis import detectable_lift, mcnemar_mid_p, paired_power, plan_power, tasks_needed
from apex_framework.analysis.power import _critical_wins

TABLE = {
    (0.10, 100): (0.89, 0.62, 0.43, 0.35),
    (0.10, 300): (1.0, 0.98, 0.89, 0.79),
    (0.10, 500): (1.0, 1.0, 0.99, 0.95),
    (0.05, 100): (0.28, 0.19, 0.14, 0.12),
    (0.05, 300): (0.71, 0.49, 0.35, 0.28),
    (0.05, 500): (0.91, 0.71, 0.53, 0.42),
}


@pytest.mark.parametrize(("lift", "tasks"), TABLE)
def test_power_of_mcnemar_mid_p(lift: float, tasks: int) -> None:
    found = [paired_power(tasks, lift, d) for d in (0.12, 0.20, 0.30, 0.40)]
    assert found == pytest.approx(TABLE[lift, tasks], abs=0.0151)


@pytest.mark.parametrize(("tasks", "points"), [(100, 12.1), (300, 7.1), (500, 5.6)])
def test_smallest_detectable_lift_at_discordance_a_fifth(tasks: int, points: float) -> None:
    found = detectable_lift(tasks, 0.20)
    assert found is not None and 100 * found == pytest.approx(points, abs=0.06)


def test_power_equals_simulation() -> None:
    rng = np.random.default_rng(0)
    wins = rng.multinomial(100, [0.15, 0.05, 0.80], size=4_000)
    rejected = np.mean([mcnemar_mid_p(int(w), int(loss)) <= 0.05 for w, loss, _ in wins])
    assert rejected == pytest.approx(paired_power(100, 0.10, 0.20), abs=0.025)


def test_without_a_lift_power_is_the_error_rate() -> None:
    assert 0.03 < paired_power(300, 0.0, 0.2) <= 0.055


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.01])
def test_fewest_wins_are_those_of_the_test_itself_whatever_was_asked_before(alpha: float) -> None:
    for tasks in (30, 12, 45):
        said = _critical_wins(tasks, alpha)
        for m in range(tasks + 1):
            rejected = [w for w in range((m + 1) // 2, m + 1) if mcnemar_mid_p(w, m - w) <= alpha]
            assert said[m] == (rejected[0] if rejected else m + 1)


def test_nothing_is_detectable_with_too_few_tasks() -> None:
    assert detectable_lift(10, 0.2) is None
    assert detectable_lift(100, 0.0) is None


def test_tasks_needed_reach_the_power_and_one_percent_fewer_do_not() -> None:
    needed = tasks_needed(0.10, 0.20)
    assert needed is not None
    assert paired_power(needed, 0.10, 0.20) >= 0.8 > paired_power(int(needed * 0.95), 0.10, 0.20)
    assert tasks_needed(0.3, 0.2) is None


def test_a_plan_says_what_it_can_show() -> None:
    plan = plan_power(300, 0.2)
    assert (plan.tasks, plan.discordance) == (300, 0.2)
    assert plan.detectable_lift == pytest.approx(0.071, abs=1e-3)
    assert plan.power_at_10pp == pytest.approx(0.98, abs=0.005)


@pytest.mark.parametrize(("lift", "discordance"), [(0.3, 0.2), (0.1, 0.0), (0.1, 1.5)])
def test_impossible_values_are_refused(lift: float, discordance: float) -> None:
    with pytest.raises(ValueError):
        paired_power(100, lift, discordance)


@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.01, 0.002])
def test_critical_wins_are_those_of_a_search_over_every_number_of_pairs(alpha: float) -> None:
    def fewest(m: int) -> int:
        wins = np.arange((m + 1) // 2, m + 1)
        found = np.nonzero(2 * binom.sf(wins, m, 0.5) + binom.pmf(wins, m, 0.5) <= alpha)[0]
        return int(wins[found[0]]) if len(found) else m + 1

    assert _critical_wins(400, alpha).tolist() == [1, *(fewest(m) for m in range(1, 401))]


def test_power_is_the_sum_over_all_numbers_of_discordant_pairs() -> None:
    for tasks, lift, discordance in ((30, 0.1, 0.3), (300, 0.05, 0.2), (700, -0.02, 0.05)):
        m, critical, p = np.arange(tasks + 1), _critical_wins(tasks, 0.05), (discordance + lift) / (2 * discordance)
        rejected = binom.sf(critical - 1, m, p) + binom.cdf(m - critical, m, p)
        whole = float((binom.pmf(m, tasks, discordance) * rejected).sum())
        assert paired_power(tasks, lift, discordance) == pytest.approx(whole, abs=1e-12)


def test_a_hundred_thousand_tasks_are_no_more_work_than_a_glance() -> None:
    begun = time.process_time()
    assert plan_power(100_000).detectable_lift == pytest.approx(0.0041, abs=1e-4)
    assert time.process_time() - begun < 5
