"""The e-process: closed form, Ville's bound, and what stopping at will does to a test that is not made for it."""

from __future__ import annotations

from dataclasses import replace
from math import comb, log, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.analysis import (
    EpisodeRow,
    better_than_all,
    e_value,
    e_value_of_counts,
    e_value_two_sided,
    mcnemar_mid_p,
    pair,
    sequential_power,
    sequential_test,
)
from apex_framework.analysis.anytime import evidence_at
from apex_framework.analysis.lift import PairedTask, Pairing
from apex_framework.errors import NotComparableError


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 60))
def test_bets_on_wins_and_losses_are_the_restricted_beta_binomial(wins: int, losses: int) -> None:
    bets = [1.0] * wins + [-1.0] * losses
    assert log(e_value(bets)) == pytest.approx(log(e_value_of_counts(wins, losses)), abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), max_size=30))
def test_the_order_of_bets_and_ties_do_not_matter(bets: list[float]) -> None:
    assert e_value(bets) == pytest.approx(e_value([*sorted(bets), 0.0, 0.0]), rel=1e-9)


def test_the_two_sided_mixture_is_the_published_formula() -> None:
    assert e_value_two_sided(0, 0) == 1.0
    assert e_value_two_sided(9, 1) == pytest.approx(2**10 / (11 * comb(10, 1)))
    assert e_value_of_counts(9, 1) < 2 * e_value_two_sided(9, 1)


@pytest.mark.parametrize("n", [1, 5, 12, 20])
def test_the_expected_capital_without_an_advantage_is_one(n: int) -> None:
    expected = sum(comb(n, w) / 2**n * e_value_of_counts(w, n - w) for w in range(n + 1))
    assert expected == pytest.approx(1.0, abs=1e-9)


def test_stopping_at_will_is_safe_and_repeated_mcnemar_is_not() -> None:
    """Looks after every task up to 300, no lift: the e-process stops in at most 5 % of runs, the repeated test in many."""
    rng = np.random.default_rng(7)
    stopped = repeated = 0
    for _ in range(150):
        d = rng.choice([1, -1, 0], 300, p=[0.1, 0.1, 0.8])
        wins, losses = np.cumsum(d == 1), np.cumsum(d == -1)
        counts = {(int(w), int(x)) for w, x in zip(wins, losses, strict=True)}
        stopped += any(e_value_of_counts(w, x) >= 20 for w, x in counts)
        repeated += any(w > x and mcnemar_mid_p(w, x) <= 0.05 for w, x in counts)
    assert stopped <= 15  # 5 % of 150 are 7.5
    assert repeated > 10  # one-sided 2.5 %, if looked at once: 4


def test_fractional_and_clustered_bets_keep_the_bound() -> None:
    """Five tasks per cluster with effects of clusters: bets on clusters stay within 5 %."""
    rng = np.random.default_rng(3)
    false = sum(
        e_value(np.clip(rng.normal(0, 0.3, 60) + rng.normal(0, 0.2, 60), -1, 1).tolist()) >= 20 for _ in range(400)
    )
    assert false <= 34


def test_power_at_the_looks_is_near_what_was_published() -> None:
    # Discordance 0.2, lift 10 pp, restricted mixture at 1/20, stopped at any task: 0.91 at 300 tasks, 0.995 at 500.
    found = sequential_power(range(10, 501, 10), 0.10, 0.20, alpha=0.05, draws=400, seed=1)
    assert found[300] == pytest.approx(0.91, abs=0.03) and found[500] == pytest.approx(0.995, abs=0.01)
    assert found[100] <= found[300] <= found[500]
    assert sequential_power((100, 300, 500), 0.0, 0.20, alpha=0.05, draws=1_500)[500] <= 0.05


def rows(wins: int, losses: int, tasks: int) -> list[EpisodeRow]:
    found = []
    for t in range(tasks):
        ours, theirs = t < wins or t >= wins + losses, t >= wins
        for arm, success in (("a", ours), ("b", theirs)):
            found.append(EpisodeRow(arm, f"t{t}", 0, success, 1, 1, 0, 0, "done", f"m{t % 10}"))
    return found


def test_looks_follow_the_plan_and_say_what_was_not_reached() -> None:
    pairing, order = pair(rows(12, 0, 40), "a", "b"), {f"t{t}": f"m{t % 10}" for t in range(40)}
    test = sequential_test(pairing, order, (4, 20, 40, 100), unit="task")
    assert [look.tasks for look in test.looks] == [4, 20, 40] and test.not_reached == (100,)
    assert test.looks[0].e_value == pytest.approx(e_value_of_counts(4, 0))
    assert test.better_at == 20 and "better at 20" in test.sentence
    assert better_than_all([test, test]) == 20
    never = sequential_test(pair(rows(0, 12, 40), "a", "b"), order, (20, 40), unit="task")
    assert never.better_at is None and better_than_all([test, never]) is None and better_than_all([]) is None


def test_a_cluster_is_bet_on_when_its_last_task_is_in() -> None:
    pairing, order = pair(rows(12, 0, 40), "a", "b"), {f"t{t}": f"m{t % 10}" for t in range(40)}
    looks = sequential_test(pairing, order, (30, 35, 40), unit="cluster").looks
    assert [look.bets for look in looks] == [0, 5, 10]
    assert looks[0].e_value == 1.0


def test_one_cluster_alone_is_no_evidence_unless_somebody_says_that_tasks_are_independent() -> None:
    """40 wins in one of 40 clusters: the interval begins at zero, and a look by itself must not say better."""
    order = {f"t{t}": "m0" if t < 40 else f"m{1 + t % 39}" for t in range(157)}
    found = [
        EpisodeRow(arm, task, 0, (arm == "a") == (cluster == "m0"), 1, 1, 0, 0, "done", cluster)
        for arm in "ab"
        for task, cluster in order.items()
        if cluster == "m0" or arm == "a"
    ]
    found += [replace(row, arm="b") for row in found if row.arm == "a" and row.cluster != "m0"]
    pairing = pair(found, "a", "b")
    test = sequential_test(pairing, order, (50, 100, 157))
    assert (test.unit, test.better_at, test.looks[-1].e_value) == ("cluster", None, pytest.approx(1.5))
    assert sequential_test(pairing, order, (50, 100, 157), unit="task").better_at == 50


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=40))
def test_where_every_cluster_is_one_task_the_units_are_the_same(differences: list[int]) -> None:
    found = [
        EpisodeRow(arm, f"t{t}", 0, d > 0 if arm == "a" else d < 0, 1, 1, 0, 0, "done", f"t{t}")
        for arm in "ab"
        for t, d in enumerate(differences)
    ]
    order = {f"t{t}": f"t{t}" for t in range(len(differences))}
    looks = [
        sequential_test(pair(found, "a", "b"), order, (len(differences),), unit=unit).looks
        for unit in ("task", "cluster")
    ]
    assert looks[0] == looks[1]


def test_impossible_looks_and_strange_tasks_are_refused() -> None:
    pairing, order = pair(rows(2, 0, 4), "a", "b"), {f"t{t}": "m" for t in range(4)}
    for looks in ((), (3, 3), (5, 2), (0, 4)):
        with pytest.raises(ValueError):
            sequential_test(pairing, order, looks)
    with pytest.raises(ValueError, match="unit"):
        sequential_test(pairing, order, (4,), unit="module")
    with pytest.raises(NotComparableError, match="not in the plan"):
        sequential_test(pairing, {"t0": "m"}, (1,))
    for bets in ([1.5], [nan]):
        with pytest.raises(ValueError):
            e_value(bets)


def test_a_bet_on_a_cluster_weighs_its_tasks() -> None:
    """2 clusters of 10 and 10 of 1; the largest that is planned is the unit, also before it is in."""
    order = {f"t{t}": f"m{t // 10}" if t >= 10 else f"s{t}" for t in range(30)}
    tasks = tuple(PairedTask(task, cluster, "", 1.0, 0.0) for task, cluster in order.items())
    looks = sequential_test(Pairing("a", "b", tasks, 30, 30), order, (10, 20, 30)).looks
    assert [look.e_value for look in looks] == pytest.approx(
        [e_value([0.1] * 10), e_value([0.1] * 10 + [1.0]), e_value([0.1] * 10 + [1.0] * 2)]
    )
    equal = {f"t{t}": f"m{t // 3}" for t in range(30)}
    found = sequential_test(Pairing("a", "b", tasks, 30, 30), equal, (30,)).looks[0]
    assert found.e_value == pytest.approx(e_value([1.0] * 10))


def test_the_anytime_interval_of_unequal_clusters_holds_the_estimate_that_weighs_tasks() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        order = {f"t{t}": f"m{t // 20}" if t < 200 else f"s{t // 2}" for t in range(300)}
        gains = rng.random(300) < np.where(np.arange(300) < 200, 0.8, 0.1)
        tasks = tuple(
            PairedTask(t, c, "", float(g), float(not g)) for (t, c), g in zip(order.items(), gains, strict=True)
        )
        found = evidence_at(Pairing("a", "b", tasks, 300, 300), order, 300, alpha=0.025)
        assert found.low <= found.estimate <= found.high
        assert found.estimate == pytest.approx(float(np.mean(2 * gains - 1)))
