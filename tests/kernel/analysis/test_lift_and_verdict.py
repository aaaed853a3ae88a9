"""From rows to a verdict: pairing, infrastructure, the intersection-union rule, the null environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.analysis import (
    ArmRole,
    EpisodeRow,
    Interval,
    Lift,
    RunData,
    Word,
    answer_of,
    arm_role,
    budget_safety,
    decide,
    estimate_lift,
    lift_between,
    pair,
    percentile,
    success_at_budget,
    summarize_arm,
)
from apex_framework.errors import NotComparableError, UnknownNameError

STATICS = ("static:star", "static:chain", "static:flat")


def row(arm: str, task: int, success: bool, *, seed: int = 0, status: str = "", **more: object) -> EpisodeRow:
    values = {
        "arm": arm,
        "task_id": f"t{task:03}",
        "seed": seed,
        "success": success,
        "tokens": 4_000,
        "steps": 9,
        "switches": 1,
        "denied": 0,
        "status": status or ("success" if success else "failure"),
        "cluster": f"m{task % 40}",
        "family": f"family {task % 2}",
        "suite_digest": "d",
        **more,
    }
    return EpisodeRow.of(values)


def rows_of(arm: str, solves: Callable[[int], bool], tasks: int = 120) -> list[EpisodeRow]:
    return [row(arm, t, solves(t)) for t in range(tasks)]


def lift(against: str, low: float, high: float) -> Lift:
    middle = (low + high) / 2
    return Lift("x", against, middle, Interval(low, high, 0.95, ""), 100, 40, 100, 100, 20, 5, 0.1, 0.1, 0.1, 0.1)


LEVELS = [
    line
    for arm, step in (("x", 3), ("static:star", 4), ("single", 5))
    for line in rows_of(arm, lambda t, step=step: t % step == 0)  # type: ignore[misc]  # mypy infers no default of a lambda
]


def test_pairs_are_by_task_and_seed_and_seeds_are_averaged_inside_a_task() -> None:
    rows = [row("a", t, t < 6 or s == 1, seed=s) for t in range(8) for s in (0, 1)]
    rows += [row("b", t, t < 4, seed=s) for t in range(8) for s in (0, 1)]
    found = lift_between(rows, "a", "b")
    assert (found.tasks, found.judged_pairs, found.wins, found.losses) == (8, 16, 4, 0)
    assert found.estimate == pytest.approx((2 * 1.0 + 2 * 0.5) / 8)


def test_unpaired_episodes_are_refused() -> None:
    rows = rows_of("a", lambda t: True, 10) + rows_of("b", lambda t: True, 9)
    with pytest.raises(NotComparableError, match="1 episodes of 'a' and 'b' have no partner"):
        pair(rows, "a", "b")
    assert pair(rows, "a", "b", partial=True).planned_pairs == 9
    with pytest.raises(NotComparableError, match="no episodes of the arm 'c'"):
        pair(rows, "a", "c")


def test_mixed_suite_digests_are_refused() -> None:
    rows = [row("a", 0, True), row("b", 0, True, suite_digest="other")]
    with pytest.raises(NotComparableError, match="2 versions of the suite"):
        pair(rows, "a", "b")


def test_infrastructure_failures_are_neither_and_both_denominators_are_kept() -> None:
    rows = rows_of("a", lambda t: t < 60) + rows_of("b", lambda t: t < 50)
    rows[0] = row("a", 0, False, status="infrastructure")
    found = lift_between(rows, "a", "b")
    assert (found.planned_pairs, found.judged_pairs, found.tasks) == (120, 119, 119)
    summary = summarize_arm(rows, "a", budget=10_000)
    assert (summary.episodes, summary.judged, summary.infrastructure) == (120, 119, 1)
    assert summary.success == pytest.approx(59 / 119)
    assert summary.success_of_all == pytest.approx(59 / 120)


def test_equal_arms_get_newcombes_interval() -> None:
    rows = rows_of("a", lambda t: t < 50) + rows_of("b", lambda t: t < 50)
    found = lift_between(rows, "a", "b")
    assert found.interval.method == "Newcombe"
    assert found.interval.low < 0 < found.interval.high
    assert found.p_mid == found.p_exact == 1.0
    assert found.detectable is None


def test_better_needs_every_lower_bound_above_zero() -> None:
    good = {name: lift(name, 0.01, 0.2) for name in (*STATICS, "single")}
    assert decide("x", good, statics=STATICS, single="single", best_static="static:star").word is Word.BETTER
    for name in good:
        one_short = {**good, name: lift(name, -0.001, 0.2)}
        found = decide("x", one_short, statics=STATICS, single="single", best_static="static:star")
        assert found.word is Word.INCONCLUSIVE
        assert name in found.sentence


@pytest.mark.parametrize(
    ("confidence", "words"), [(0.95, "95 % interval"), (1 - 2 * 0.1, "80 % interval"), (0.999, "99.9 %")]
)
def test_the_sentence_names_the_level_of_its_interval(confidence: float, words: str) -> None:
    lifts = {name: estimate_lift(pair(LEVELS, "x", name), confidence=confidence) for name in ("static:star", "single")}
    found = decide("x", lifts, statics=["static:star"], single="single", best_static="static:star")
    assert found.word is Word.INCONCLUSIVE
    assert words in found.sentence


def test_better_needs_the_single_agent_and_every_static() -> None:
    good = {name: lift(name, 0.1, 0.2) for name in STATICS}
    found = decide("x", good, statics=STATICS, single=None, best_static="static:star")
    assert (found.word, found.missing) == (Word.INCONCLUSIVE, ("the single agent",))
    del good["static:flat"]
    found = decide("x", good, statics=STATICS, single=None)
    assert found.word is Word.INCONCLUSIVE and "static:flat" in found.missing
    assert decide("x", {}, statics=(), single=None).decision == "EXTEND"


def test_worse_needs_the_upper_bound_below_zero_against_the_best_static_chosen_on_dev() -> None:
    lifts = {s: lift(s, -0.2, 0.1) for s in STATICS} | {"static:chain": lift("static:chain", -0.2, -0.01)}
    chosen = decide("x", lifts, statics=STATICS, single=None, best_static="static:chain", best_static_from="dev")
    assert (chosen.word, chosen.decision) == (Word.WORSE, "KILL")
    assert decide("x", lifts, statics=STATICS, single=None).word is Word.INCONCLUSIVE
    all_worse = {s: lift(s, -0.2, -0.01) for s in STATICS}
    assert decide("x", all_worse, statics=STATICS, single=None).word is Word.WORSE


def test_go_kill_extend() -> None:
    def decision(low: float, high: float) -> str:
        lifts = {name: lift(name, low, high) for name in (*STATICS, "single")}
        return decide("x", lifts, statics=STATICS, single="single", best_static=STATICS[0]).decision

    assert decision(0.04, 0.10) == "GO"
    assert decision(0.01, 0.06) == "EXTEND"
    assert decision(-0.05, 0.08) == "EXTEND"
    assert decision(-0.05, 0.04) == "KILL"


def test_a_clear_winner_is_better_and_its_mirror_image_worse() -> None:
    rows = rows_of("single", lambda t: t < 40) + rows_of("bandit_v1", lambda t: t % 10 < 8)
    for i, name in enumerate(STATICS):
        rows += rows_of(name, lambda t, i=i: t % 10 < 4 + i)
    run = RunData(Path(), tuple(rows), "mini", "dev", "d", "L2", "apex run", len(rows))
    found = answer_of(run)
    verdict = found.verdicts[0]
    assert (verdict.word, verdict.arm, verdict.best_static) == (Word.BETTER, "bandit_v1", "static:flat")
    assert verdict.best_static_from == "same data" and found.exploratory
    assert found.oracle_static == pytest.approx(0.6)
    assert list(found.families) == ["family 0", "family 1"]
    swapped = [r if r.arm == "single" else EpisodeRow.of({**_plain(r), "success": not r.success}) for r in rows]
    mirror = answer_of(RunData(Path(), tuple(swapped), "mini", "dev", "d", "L2"))
    assert mirror.verdicts[0].word is Word.WORSE


def test_on_test_the_best_static_is_the_one_that_dev_named() -> None:
    rows = rows_of("bandit_v1", lambda t: t < 40)
    for i, name in enumerate(STATICS):
        rows += rows_of(name, lambda t, i=i: t < 40 + i)
    run = RunData(Path(), tuple(rows), "mini", "test", "d", "L2")
    assert answer_of(run).verdicts[0].best_static == ""

    def source(given: str = "", **settings: object) -> tuple[str, str]:
        verdict = answer_of(replace(run, settings=settings), best_static=given).verdicts[0]
        return verdict.best_static, verdict.best_static_from

    registered = {"best_static": "static:star", "experiment": {"name": "x", "registered": "d1"}}
    assert source(**registered) == source("static:star", **registered) == ("static:star", "dev")
    assert source("static:flat", **registered) == source("static:flat") == ("static:flat", "option")
    assert source(best_static="static:star") == ("static:star", "plan")
    assert source(best_static="static:star", experiment={"registered": ""}) == ("static:star", "plan")


@pytest.mark.parametrize("name", ["nosuch", "single", "bandit_v1", "static:sta"])
def test_what_is_no_static_arm_of_the_run_is_no_best_static(name: str) -> None:
    rows = [r for arm in ("bandit_v1", "single", "static:star") for r in rows_of(arm, lambda t: t < 40)]
    with pytest.raises(UnknownNameError, match=f"unknown static arm of this run '{name}'") as refused:
        answer_of(RunData(Path(), tuple(rows), "mini", "test", "d", "L2"), best_static=name)
    assert "static:star" in refused.value.remedy


def test_nothing_is_decided_without_the_best_static_that_is_named() -> None:
    lifts = {name: lift(name, 0.03, 0.1) for name in ("static:chain", "single")}
    found = decide("x", lifts, statics=["static:chain"], single="single", best_static="static:star")
    assert (found.word, found.decision, found.missing) == (Word.INCONCLUSIVE, "EXTEND", ("static:star",))
    assert found.sentence == "INCONCLUSIVE: x is not compared with static:star."
    worse = {name: lift(name, -0.2, -0.1) for name in ("static:chain", "single")}
    assert decide("x", worse, statics=STATICS, single="single").decision == "EXTEND"  # which is best, nobody knows


INTERVALS = st.tuples(st.floats(-0.2, 0.2), st.floats(0.0, 0.3)).map(lambda x: (x[0], x[0] + x[1]))
ARMS = (*STATICS, "single", "linucb")


@given(
    st.dictionaries(st.sampled_from(ARMS), INTERVALS),
    st.lists(st.sampled_from(STATICS), unique=True),
    st.sampled_from(["single", None]),
    st.sampled_from(["", *STATICS]),
    st.sampled_from([0.05, 0.1, 0.2]),
)
def test_better_go_and_kill_follow_from_every_comparison_that_they_need(
    found: dict[str, tuple[float, float]], statics: list[str], single: str | None, best: str, claim: float
) -> None:
    lifts = {name: lift(name, *ends) for name, ends in found.items()}
    verdict = decide("x", lifts, statics=statics, single=single, others=["linucb"], best_static=best, claim=claim)
    needed = {*statics, *filter(None, (single, best)), "linucb"}
    rivals = [best] if best else statics
    known = bool(rivals) and set(rivals) <= lifts.keys()
    all_above = bool(statics) and single is not None and all(n in lifts and lifts[n].interval.low > 0 for n in needed)
    assert (verdict.word is Word.BETTER) == all_above
    assert (verdict.decision == "GO") == (all_above and known and all(lifts[n].estimate >= claim for n in rivals))
    if verdict.decision == "KILL":
        assert known and all(lifts[n].interval.high < claim for n in rivals)
    assert not (verdict.missing and verdict.word is Word.BETTER)


def test_the_claim_moves_go_and_kill() -> None:
    def decision(low: float, high: float, claim: float) -> str:
        lifts = {name: lift(name, low, high) for name in (*STATICS, "single")}
        return decide("x", lifts, statics=STATICS, single="single", best_static=STATICS[0], claim=claim).decision

    assert [decision(0.04, 0.3, claim) for claim in (0.05, 0.2)] == ["GO", "EXTEND"]
    assert [decision(0.04, 0.15, claim) for claim in (0.05, 0.2)] == ["GO", "KILL"]
    assert [decision(-0.1, 0.04, claim) for claim in (0.02, 0.05)] == ["EXTEND", "KILL"]


def test_many_wins_in_one_cluster_are_one_win_for_the_corrected_test_as_for_the_interval() -> None:
    """40 wins, all in one of 40 clusters: what is corrected and printed must not contradict the interval."""
    rows = [row("a", t, t % 40 == 0 or t % 2 == 0, cluster=f"m{t % 40}") for t in range(1_600)]
    rows += [row("b", t, t % 40 != 0 and t % 2 == 0, cluster=f"m{t % 40}") for t in range(1_600)]
    rows = [r for r in rows if r.cluster == "m0" or int(r.task_id[1:]) < 160]
    found = lift_between(rows, "a", "b")
    assert (found.clusters, found.wins, found.losses, found.interval.low) == (40, 40, 0, 0.0)
    assert found.p_exact < 1e-9 < found.p == found.p_cluster == 1.0
    assert found.test == "sign flips of 40 clusters"
    alone = lift_between([EpisodeRow.of({**_plain(r), "cluster": r.task_id}) for r in rows], "a", "b")
    assert (alone.p, alone.test) == (alone.p_exact, "exact McNemar")


def test_holm_is_over_the_test_that_knows_the_clusters() -> None:
    rows = [r for name in ("bandit_v1", *STATICS, "single", "linucb") for r in rows_of(name, lambda t: t % 40 > 3)]
    rows = [
        EpisodeRow.of({**_plain(r), "success": True}) if r.arm == "bandit_v1" and r.cluster == "m0" else r for r in rows
    ]
    found = answer_of(RunData(Path(), tuple(rows), "mini", "test", "d", "L2"))
    by_arm = {lift.against: lift for lift in found.lifts if lift.arm == "bandit_v1"}
    assert found.holm["bandit_v1 - linucb"] == by_arm["linucb"].p_cluster == 1.0 > by_arm["linucb"].p_mid


def test_null_environment_false_better_at_most_five_percent() -> None:
    """Guard 7: identical arms. With 40 worlds, more than 5 false ones would refute 5 % (p < 0.02)."""
    rng = np.random.default_rng(5)
    false = 0
    for _ in range(40):
        difficulty = rng.random(80)
        rows = []
        for name in ("bandit_v1", "single", *STATICS):
            solved = rng.random(80) < difficulty
            rows += rows_of(name, lambda t, s=solved: bool(s[t]), 80)
        found = {o: lift_between(rows, "bandit_v1", o) for o in ("single", *STATICS)}
        false += decide("bandit_v1", found, statics=STATICS, single="single").word is Word.BETTER
    assert false <= 5


def test_budget_safety_counts_overspending_and_what_it_costs() -> None:
    rows = [row("a", t, True, tokens=10_000 + 100 * (t < 2)) for t in range(500)]
    safety = budget_safety(rows, 10_000)
    assert (safety.violations, safety.mean_overspend) == (2, 100.0)
    assert safety.upper == pytest.approx(0.01254, abs=1e-5)


def test_success_at_budget_reads_one_run_per_rung() -> None:
    rungs = {5_000: rows_of("a", lambda t: t < 20), 10_000: rows_of("a", lambda t: t < 60)}
    found = success_at_budget(rungs, ["a"])["a"]
    assert {b: s.success for b, s in found.items()} == pytest.approx({5_000: 20 / 120, 10_000: 0.5})


def test_overfit_is_the_share_that_passes_only_visible_tests() -> None:
    rows = [row("a", t, False, visible_passed=True, overfit=t < 3) for t in range(12)]
    assert summarize_arm(rows, "a").overfit == 0.25


@pytest.mark.parametrize(
    ("name", "setting", "role"),
    [
        ("single", {"team": "single", "controller": "static"}, ArmRole.SINGLE),
        ("manager", {"team": "manager", "controller": "static"}, ArmRole.MANAGER),
        ("star", {"team": "swe", "controller": "static:star"}, ArmRole.STATIC),
        ("static_star", None, ArmRole.STATIC),
        ("schedule:a,b,c", None, ArmRole.SCHEDULE),
        ("random_switch:0.1", None, ArmRole.CONTROL),
        ("per_episode", None, ArmRole.CONTROL),
        ("bandit_v1", None, ArmRole.SUBJECT),
        ("phase_heuristic", {"team": "swe", "controller": "phase_heuristic"}, ArmRole.SUBJECT),
    ],
)
def test_roles_of_arms(name: str, setting: dict[str, str] | None, role: ArmRole) -> None:
    assert arm_role(name, setting) is role


def test_percentile_is_a_value_that_occurred() -> None:
    assert percentile([float(i) for i in range(1, 101)], 0.95) == 95.0
    assert percentile([7.0], 0.95) == 7.0


def _plain(r: EpisodeRow) -> dict[str, object]:
    return {name: getattr(r, name) for name in EpisodeRow.__slots__}
