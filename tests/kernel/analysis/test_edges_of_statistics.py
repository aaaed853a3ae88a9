"""Where formulas end: nothing to count, one cluster, all tied, all equal but for rounding, levels that nothing resolves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from math import inf, nan

import numpy as np
import pytest
from scipy import stats

from apex_framework.analysis import (
    Certainty,
    EpisodeRow,
    Interval,
    Lift,
    LoggedDecision,
    LoggedEpisode,
    Pairing,
    Verdict,
    Word,
    bca_interval,
    clopper_pearson_upper,
    decide,
    detectable_lift,
    estimate_lift,
    hodges_lehmann,
    holm,
    lift_between,
    mean_interval,
    newcombe_paired,
    non_inferiority,
    off_policy_value,
    pair,
    paired_power,
    paired_shift,
    plan_power,
    sequential_power,
    success_curves,
    summarize_arm,
    wilson,
)
from apex_framework.analysis.lift import PairedTask
from apex_framework.errors import NotComparableError

STATICS = ("star", "chain", "flat")


def row(arm: str, task: int, success: bool, *, cluster: str = "", seed: int = 0, **more: object) -> EpisodeRow:
    values = {"tokens": 1, "steps": 1, "switches": 0, "denied": 0, "status": "done", **more}
    named = {"arm": arm, "task_id": f"t{task}", "seed": seed, "success": success, "cluster": cluster or f"m{task}"}
    return EpisodeRow.of({**named, **values})


def pairing(tasks: int, clusters: int, ours: Callable[[int], float], theirs: Callable[[int], float]) -> Pairing:
    made = tuple(PairedTask(f"t{i}", f"m{i % clusters}", "", ours(i), theirs(i)) for i in range(tasks))
    return Pairing("a", "b", made, tasks, tasks)


@pytest.mark.parametrize(("violations", "episodes"), [(0, 299), (1, 473), (2, 628)])
def test_so_many_episodes_certify_one_percent(violations: int, episodes: int) -> None:
    assert clopper_pearson_upper(violations, episodes) <= 0.01 < clopper_pearson_upper(violations, episodes - 1)


@pytest.mark.parametrize("clusters", [1, 2, 5])
def test_too_few_clusters_bear_no_bound_however_alike_their_tasks_are(clusters: int) -> None:
    """One module is one observation: forty of its tasks are no evidence about other modules."""
    mixed = pairing(40, clusters, lambda i: float(i % 8 > 0), lambda i: 0.0)
    alike = pairing(40, clusters, lambda i: 1.0, lambda i: 0.0)
    blocks = pairing(40, clusters, lambda i: float(i // clusters % 2), lambda i: 0.0)  # equal means in all clusters
    for found in map(estimate_lift, (mixed, alike, blocks)):
        assert (found.interval.low, found.interval.high) == (-1.0, 1.0)
        assert "too few" in found.interval.method
    assert estimate_lift(pairing(40, 40, lambda i: 1.0, lambda i: 0.0)).interval.low > 0.8


def test_differences_that_are_equal_but_for_rounding_get_newcombes_interval() -> None:
    """1 - 2/3, 2/3 - 1/3 and 1/3 are three different floats."""
    thirds = ((1.0, 2 / 3), (2 / 3, 1 / 3), (1 / 3, 0.0))
    found = estimate_lift(pairing(45, 45, lambda i: thirds[i % 3][0], lambda i: thirds[i % 3][1]))
    assert found.interval.method == "Newcombe"
    assert found.interval.low < found.estimate - 0.1 < found.estimate + 0.1 < found.interval.high


def few(wins: int, losses: int, tasks: int = 300) -> Pairing:
    """Tasks, each its own cluster, on nearly all of which the arms agree."""
    return pairing(tasks, tasks, lambda i: float(i < wins), lambda i: float(wins <= i < wins + losses))


@pytest.mark.parametrize(
    ("wins", "losses", "better"),
    [(1, 0, False), (3, 0, False), (5, 0, False), (6, 0, True), (5, 1, False), (8, 2, False), (10, 1, True)],
)
def test_a_few_wins_among_many_ties_are_better_only_when_the_exact_test_says_so(
    wins: int, losses: int, better: bool
) -> None:
    """The bootstrap alone puts three wins of 300 tasks, and no loss, above zero; a coin does that once in eight times."""
    found = estimate_lift(few(wins, losses))
    assert (found.wins, found.losses) == (wins, losses)
    assert (found.interval.low > 0) == better == (found.p_exact / 2 <= 0.025)
    assert found.interval.low <= found.estimate <= found.interval.high
    assert f"arms differ in {wins + losses} clusters" in found.interval.method


def test_without_a_lift_the_bound_errs_as_rarely_as_it_says_however_few_tasks_differ() -> None:
    """Outcomes of 100 tasks of which 3 % differ, weighed by their chances; the bootstrap alone errs in 4.2 %."""
    wrong = 0.0
    for n in range(1, 13):
        for wins in range(n // 2 + 1, n + 1):
            chance = float(stats.binom.pmf(n, 100, 0.03) * stats.binom.pmf(wins, n, 0.5))
            if chance < 2e-3:  # rare enough to count as wrong without a look
                wrong += chance
                continue
            wrong += chance * (estimate_lift(few(wins, n - wins, 100)).interval.low > 0)
    assert wrong <= 0.025


def test_values_that_are_all_equal_or_none_have_no_bootstrap() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for values, clusters in (([1.0] * 40, range(40)), ([], []), ([1.0, 0.0], [0, 0])):
            with pytest.raises(ValueError):
                bca_interval(values, [str(c) for c in clusters])
        with pytest.raises(ValueError):
            mean_interval([0.1 + 0.2, 0.3] * 20, [str(i) for i in range(40)])
    for wrong in (nan, inf):
        with pytest.raises(ValueError):
            mean_interval([wrong, 1.0, 0.0], ["a", "b", "c"])


def test_unequal_clusters_weigh_as_many_tasks_as_they_have() -> None:
    values = [1.0] * 30 + [0.0] * 34
    clusters = ["big"] * 30 + [f"m{i}" for i in range(34)]
    interval = bca_interval(values, clusters)
    assert interval.low < 30 / 64 < interval.high
    sums, sizes = np.array([30.0, *[0.0] * 34]), np.array([30, *[1] * 34])
    drawn = np.random.default_rng(0).integers(0, 35, (10_000, 35))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    assert means.min() <= interval.low <= interval.high <= means.max()


@pytest.mark.parametrize("confidence", [0.95, 0.999, 1 - 1e-9, 1 - 1e-12])
def test_an_acceleration_beyond_its_pole_does_not_turn_the_interval_over(confidence: float) -> None:
    """One value apart from all others: acceleration near 1/6, so that 1 - a z passes zero at extreme levels."""
    interval = bca_interval([0.0] * 49 + [1.0], [str(i) for i in range(50)], confidence=confidence)
    assert interval.low <= 0.02 <= interval.high and interval.high > 0.05


def test_counts_and_shares_of_nothing_are_refused() -> None:
    for wrong in (
        lambda: wilson(0, 0),
        lambda: wilson(3, 2),
        lambda: newcombe_paired([], []),
        lambda: clopper_pearson_upper(0, 0),
        lambda: hodges_lehmann([]),
        lambda: holm({"a": nan, "b": 0.01}),
        lambda: holm({"a": 1.2}),
        lambda: paired_power(100, nan, 0.2),
        lambda: sequential_power((10,), nan, 0.2),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_signed_ranks_of_ties_and_zeros_are_numbers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for d in product((-1.0, 0.0, 1.0), repeat=5):
            found = paired_shift(d)
            assert 0.0 <= found.p <= 1.0
            assert found.interval is None or found.interval.low <= found.estimate <= found.interval.high


def test_half_of_the_tasks_tied_at_zero_are_dropped_from_the_test_as_declared() -> None:
    d = [0.0] * 20 + list(np.random.default_rng(3).normal(0.8, 1.0, 20))
    expected = stats.wilcoxon(d, zero_method="wilcox", method="exact" if len(set(map(abs, d[20:]))) == 20 else "approx")
    assert paired_shift(d).p == pytest.approx(float(expected.pvalue), abs=1e-9)
    assert "zeros dropped" in paired_shift(d).method


@pytest.mark.parametrize(("tasks", "clusters"), [(12, 4), (100, 10)])
def test_strong_or_few_clusters_leave_a_margin_open_and_nothing_breaks(tasks: int, clusters: int) -> None:
    """Clusters of equal tasks: the variance per task is more than that of any single difference."""
    rows = [row("a", i, i % clusters % 2 == 0, cluster=f"m{i % clusters}") for i in range(tasks)]
    rows += [row("b", i, i % clusters % 3 == 0, cluster=f"m{i % clusters}") for i in range(tasks)]
    found = non_inferiority(pair(rows, "a", "b"), 0.02)
    assert found.word is Certainty.NOT_CERTIFIABLE
    assert (found.tasks_needed is None) == (clusters < 5)
    assert ("too few for any bound" in found.sentence) == (clusters < 5)
    assert found.tasks_needed is None or found.tasks_needed > 10_000


def test_one_failure_of_infrastructure_does_not_take_the_curve() -> None:
    held = {b: [row("a", i, i % 3 < b // 10) for i in range(60)] for b in (10, 20)}
    held[20][7] = row("a", 7, False, status="infrastructure")
    (curve,) = success_curves(held, ["a"])
    assert curve.tasks == 59
    assert curve.points[0].success == pytest.approx(20 / 59)  # task 7 is in no rung
    assert curve.points[0].pointwise.low < 20 / 59 < curve.points[0].pointwise.high
    held[20] = [row("a", i, False, status="infrastructure") for i in range(60)]
    with pytest.raises(NotComparableError, match="judged in every rung"):
        success_curves(held, ["a"])


def test_overspending_counts_where_nobody_could_grade_the_episode() -> None:
    rows = [row("a", i, True, tokens=900) for i in range(99)] + [
        row("a", 99, False, tokens=1_200, status="infrastructure")
    ]
    safety = summarize_arm(rows, "a", budget=1_000).safety
    assert safety is not None
    assert (safety.episodes, safety.violations, safety.mean_overspend) == (100, 1, 200.0)
    rows[99] = row("a", 99, False, tokens=0, status="infrastructure")
    safety = summarize_arm(rows, "a", budget=1_000).safety
    assert safety is not None and (safety.episodes, safety.violations) == (99, 0)


def lift(against: str, low: float, high: float) -> Lift:
    middle = (low + high) / 2
    return Lift("x", against, middle, Interval(low, high, 0.95, ""), 100, 40, 100, 100, 20, 5, 0.1, 0.1, 0.1, 0.1)


def test_kill_without_a_static_from_dev_needs_every_static() -> None:
    """The lowest of three bounds is below 5 points by luck three times as often."""
    lifts = {"star": lift("star", -0.1, 0.03), "chain": lift("chain", -0.02, 0.12), "flat": lift("flat", -0.1, 0.1)}
    assert decide("x", lifts, statics=STATICS, single=None).decision == "EXTEND"
    assert decide("x", lifts, statics=STATICS, single=None, best_static="star").decision == "KILL"
    low = {name: lift(name, -0.1, 0.04) for name in STATICS}
    assert decide("x", low, statics=STATICS, single=None).decision == "KILL"


def test_better_needs_the_other_arms_that_a_plan_registered() -> None:
    good = {name: lift(name, 0.06, 0.2) for name in (*STATICS, "single", "random_switch")}

    def judged(lifts: dict[str, Lift]) -> Verdict:
        return decide("x", lifts, statics=STATICS, single="single", others=("random_switch",), best_static="star")

    found = judged(good)
    assert (found.word, found.decision) == (Word.BETTER, "GO")
    assert "the single agent and random_switch" in found.sentence
    short = judged({**good, "random_switch": lift("random_switch", -0.01, 0.2)})
    assert (short.word, short.decision) == (Word.INCONCLUSIVE, "EXTEND")
    del good["random_switch"]
    assert judged(good).missing == ("random_switch",)


def test_detectable_lifts_are_those_of_the_registered_level() -> None:
    found = pairing(200, 200, lambda i: float(i % 5 == 0), lambda i: float(i % 7 == 0))
    usual, strict = estimate_lift(found), estimate_lift(found, confidence=0.99)
    assert usual.detectable is not None and strict.detectable is not None
    assert usual.detectable == detectable_lift(200, usual.discordance)
    assert usual.detectable < strict.detectable
    usual_plan, strict_plan = plan_power(300, 0.2), plan_power(300, 0.2, 0.01)
    assert usual_plan.detectable_lift is not None and strict_plan.detectable_lift is not None
    assert usual_plan.detectable_lift < strict_plan.detectable_lift
    assert usual_plan.power_at_10pp > strict_plan.power_at_10pp


def test_arms_that_lack_pairs_are_compared_on_those_they_have_only_when_asked() -> None:
    rows = [row("a", i, i % 2 == 0) for i in range(40)] + [row("b", i, i % 3 == 0) for i in range(5, 40)]
    with pytest.raises(NotComparableError, match="5 episodes of 'a' and 'b' have no partner"):
        pair(rows, "a", "b")
    assert lift_between(rows, "a", "b", partial=True).tasks == 35


@pytest.mark.parametrize("wrong", [nan, inf])
def test_a_feature_that_is_no_number_is_refused_and_predicts_nothing(wrong: float) -> None:
    log = [
        LoggedEpisode(f"t{i}", f"m{i}", 1.0, (LoggedDecision("a", 0.5, {"a": 1.0}, (wrong if i == 3 else 1.0,)),))
        for i in range(12)
    ]
    with pytest.raises(ValueError, match="no finite number"):
        off_policy_value(log)


def test_a_self_normalised_value_on_which_all_clusters_agree_has_no_interval() -> None:
    log = [LoggedEpisode(f"t{i}", f"m{i}", 1.0, (LoggedDecision("a", 0.5, {"a": 1.0}),)) for i in range(12)]
    log += [LoggedEpisode(f"u{i}", f"n{i}", 0.0, (LoggedDecision("b", 0.5, {"a": 1.0}),)) for i in range(12)]
    snips = off_policy_value(log).estimate("snips")
    assert (snips.value, snips.interval) == (1.0, None)
    assert "all clusters with weight agree" in snips.method
