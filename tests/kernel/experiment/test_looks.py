"""Looks by the registered rule: what a plan may say of them, in what order tasks come, and how often luck is called GO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.analysis import EpisodeRow, Pairing, mcnemar_mid_p, pair, sequential_test
from apex_framework.analysis.anytime import ON, Evidence, decision_at, evidence_at
from apex_framework.analysis.lift import PairedTask
from apex_framework.analysis.verdict import GO_LIFT
from apex_framework.errors import ConfigError
from apex_framework.experiment.plan import PlannedTask, choose_tasks, in_order_of_looks
from apex_framework.experiment.planfile import PlanFile, read_plan_file
from apex_framework.interfaces import Task

PLAN = """
[prereg]
hypothesis = "it helps"
estimand = "success"
arm = "bandit_v1"
against = ["static_star", "single"]
stop = "sequential"
looks = [10, 20, 40]
unit = "task"

[[part]]
name = "main"
suite = "mini/test"
limit = 40
best_static = "static_star"
arms = ["bandit_v1", "static_star", "single"]
"""


def plan(tmp_path: Path, text: str = PLAN) -> PlanFile:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return read_plan_file(path)


def test_a_sequential_plan_has_one_run_per_look_and_every_task_in_one_of_them(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert found.prereg is not None and found.prereg.unit == "task"
    runs = found.runs(found.parts[0])
    assert [(run.folder, run.look["from"], run.look["to"]) for run in runs] == [
        ("main@look1", 0, 10),
        ("main@look2", 10, 20),
        ("main@look3", 20, 40),
    ]
    assert found.to_json()["prereg"]["looks"] == [10, 20, 40]


def test_plans_that_were_registered_before_there_were_looks_keep_their_digest(tmp_path: Path) -> None:
    fixed = plan(tmp_path, PLAN.replace('stop = "sequential"\nlooks = [10, 20, 40]\nunit = "task"\n', ""))
    assert {"looks", "unit"}.isdisjoint(fixed.to_json()["prereg"])
    assert [run.folder for run in fixed.runs(fixed.parts[0])] == ["main"]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("[10, 20, 40]", "[10, 10, 40]", 8, "do not increase: 10, 10, 40"),
        ("[10, 20, 40]", "[20, 10, 40]", 8, "do not increase"),
        ("[10, 20, 40]", "[10, 50]", 8, "a look at 50 tasks is beyond the 40"),
        ("[10, 20, 40]", "[10, 20]", 8, "no look is at the 40 tasks"),
        ("[10, 20, 40]", "[40]", 8, "at least two"),
        ("[10, 20, 40]", "[0, 40]", 8, "at least two numbers of tasks"),
        ("[10, 20, 40]", "[true, 40]", 8, "at least two numbers of tasks"),
        ("[10, 20, 40]", '"often"', 8, "at least two numbers of tasks"),
        ("looks = [10, 20, 40]\n", "", 7, "not None"),
        ('"sequential"', '"fixed"', 8, 'looks does not go with stop = "fixed"'),
        ('stop = "sequential"\nlooks = [10, 20, 40]\n', "", 7, 'unit does not go with stop = "fixed"'),
        ('"task"', '"module"', 9, "unknown unit 'module'"),
        ('"sequential"', '"whenever"', 7, "known: fixed (one look, at the end), sequential"),
        ('best_static = "static_star"\n', "", 7, "names none"),
        ("limit = 40", "limit = 40\nbudgets = [500, 900]", 7, "2 budgets, and looks are taken at one"),
    ],
)
def test_impossible_looks_are_one_line_with_their_place(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    text = PLAN.replace(old, new, 1)
    if "budgets" in new:
        text = text.replace("[[part]]", "budget = 500\n[[part]]")
    assert text != PLAN
    with pytest.raises(ConfigError) as refused:
        plan(tmp_path, text)
    assert words in f"{refused.value.cause} {refused.value.remedy}"
    assert f"plan.toml:{line}: " in refused.value.cause, refused.value.cause


TASKS = [Task(f"t{i}", "mini", "test", "", cluster=f"m{i % 7}") for i in range(60)]
PLANNED = tuple(PlannedTask(task.id, task.cluster) for task in TASKS)


def test_the_first_tasks_of_the_order_are_what_a_smaller_limit_takes() -> None:
    ordered = in_order_of_looks(PLANNED, "task")
    for n in (1, 10, 59):
        assert {task.id for task in ordered[:n]} == {task.id for task in choose_tasks(TASKS, n)}


@pytest.mark.parametrize("unit", ["task", "cluster"])
def test_the_order_does_not_depend_on_the_suites(unit: str) -> None:
    ordered = in_order_of_looks(PLANNED, unit)
    assert in_order_of_looks(PLANNED[::-1], unit) == ordered != PLANNED
    if unit == "cluster":
        clusters = [task.cluster for task in ordered]
        assert len(list(dict.fromkeys(clusters))) == sum(
            a != b for a, b in zip(["", *clusters], clusters, strict=False)
        )


def rows(outcomes: dict[str, Sequence[bool]], clusters: int = 10) -> list[EpisodeRow]:
    return [
        EpisodeRow(arm, f"t{t}", 0, bool(success), 1, 1, 0, 0, "done", f"m{t % clusters}")
        for arm, successes in outcomes.items()
        for t, success in enumerate(successes)
    ]


def test_what_a_look_says_agrees_with_the_e_process_of_compare() -> None:
    rng = np.random.default_rng(5)
    pairing = pair(rows({"a": rng.random(60) < 0.8, "b": rng.random(60) < 0.4}), "a", "b")
    order = {f"t{t}": f"m{t % 10}" for t in range(60)}
    for unit in ("task", "cluster"):
        test, before = sequential_test(pairing, order, (20, 40, 60), unit=unit), None
        for look in test.looks:
            before = evidence_at(pairing, order, look.planned, alpha=0.025, unit=unit, before=before)
            assert (before.e_better, before.better, before.bets) == (look.e_value, look.crossed, look.bets)
            assert before.better == (before.low > 0)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), max_size=40), st.floats(-0.9, 0.9))
def test_a_bound_is_the_e_process_turned_round(differences: list[float], mean: float) -> None:
    """A mean is excluded exactly when bets against it have reached 1/alpha."""
    from apex_framework.analysis.anytime import _against
    from apex_framework.analysis.sequential import Bet

    bets = [Bet(d, 1.0) for d in differences]
    tasks = tuple(PairedTask(f"t{i}", "m", "", max(d, 0.0), max(-d, 0.0)) for i, d in enumerate(differences))
    order = {task.task_id: "m" for task in tasks}
    pairing = Pairing("a", "b", tasks, len(tasks), len(tasks))
    found = evidence_at(pairing, order, len(tasks), alpha=0.05, claim=mean, unit="task")
    assert -1.0 <= found.low <= found.estimate <= found.high <= 1.0
    if abs(mean - found.low) > 1e-6:
        assert (_against(bets, mean, above=True) >= 20) == (mean < found.low)
    if abs(mean - found.high) > 1e-6:
        assert (_against(bets, mean, above=False) >= 20) == (mean > found.high) == found.small


def evidence(against: str, *, better: bool = False, small: bool = False, estimate: float = 0.1) -> Evidence:
    return Evidence("a", against, 9, 9, 1, 1, estimate, -1.0, 1.0, 1.0, 1.0, better, small)


def test_the_rule_of_a_look() -> None:
    star, single = evidence("star", better=True), evidence("single", better=True)
    assert decision_at([star, single], "star", last=False) == "GO"
    assert decision_at([star, single], "star", ("the single agent",), last=False) == ON
    assert decision_at([star, evidence("single")], "star", last=False) == ON
    assert decision_at([star, evidence("single")], "star", last=True) == "EXTEND"
    assert decision_at([evidence("star", better=True, estimate=0.04), single], "star", last=False) == ON
    assert decision_at([evidence("star", small=True), single], "star", last=False) == "KILL"
    assert decision_at([star, evidence("single", small=True)], "star", last=False) == ON
    assert decision_at([star, single], "star", last=False, claim=0.2) == ON


LOOKS = tuple(range(30, 301, 30))
EXPERIMENTS, ALPHA = 300, 0.05
Rule = Callable[[Pairing, dict[str, str], int, Evidence | None], Evidence]


def called_go(rule: Rule, lift: float) -> int:
    """How many of the simulated experiments end in GO, against a static topology and a single agent that are hopeless or equal."""
    rng = np.random.default_rng(11)
    order = {f"t{t}": f"m{t}" for t in range(300)}
    found = 0
    for _ in range(EXPERIMENTS):
        d = rng.choice([1.0, -1.0, 0.0], 300, p=[0.1 + lift / 2, 0.1 - lift / 2, 0.8])
        tasks = tuple(PairedTask(f"t{t}", f"m{t}", "", max(x, 0.0), max(-x, 0.0)) for t, x in enumerate(d))
        pairing, before = Pairing("a", "star", tasks, 300, 300), None
        for look in LOOKS:
            before = rule(pairing, order, look, before)
            decision = decision_at([before, evidence("single", better=True)], "star", last=look == LOOKS[-1])
            if decision != ON:
                found += decision == "GO"
                break
    return found


def registered(pairing: Pairing, order: dict[str, str], look: int, before: Evidence | None) -> Evidence:
    return evidence_at(pairing, order, look, alpha=ALPHA, before=before, bounds=False)


def peeking(pairing: Pairing, order: dict[str, str], look: int, before: Evidence | None) -> Evidence:
    """The planted bug: at every look the test that is made for one look."""
    seen = [task.ours - task.theirs for task in pairing.tasks if int(task.task_id[1:]) < look]
    wins, losses = sum(d > 0 for d in seen), sum(d < 0 for d in seen)
    better = wins > losses and mcnemar_mid_p(wins, losses) <= 2 * ALPHA
    return evidence("star", better=better, estimate=(wins - losses) / look)


def test_without_a_lift_go_is_called_in_at_most_alpha_of_experiments_and_peeking_is_caught() -> None:
    most = ALPHA * EXPERIMENTS
    assert called_go(registered, 0.0) <= most
    assert called_go(peeking, 0.0) > 1.5 * most


def test_a_lift_is_found_and_a_lift_of_five_points_is_rarely_killed() -> None:
    assert called_go(registered, 0.14) > 0.8 * EXPERIMENTS
    rng = np.random.default_rng(2)
    killed = 0
    for _ in range(EXPERIMENTS // 4):
        d = rng.choice([1.0, -1.0, 0.0], 300, p=[0.1 + GO_LIFT / 2, 0.1 - GO_LIFT / 2, 0.8])
        tasks = tuple(PairedTask(f"t{t}", f"m{t}", "", max(x, 0.0), max(-x, 0.0)) for t, x in enumerate(d))
        order = {task.task_id: "m" for task in tasks}
        killed += any(
            evidence_at(Pairing("a", "b", tasks, 300, 300), order, n, alpha=ALPHA, unit="task", bounds=False).small
            for n in LOOKS
        )
    assert killed <= 3 * ALPHA * EXPERIMENTS / 4
