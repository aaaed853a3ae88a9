"""The fixed rule on finished runs: what GO and KILL rest on, and which test is corrected and named."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from apex_framework.cli.judged import text_of
from apex_framework.experiment.judgement import Decision, decide_plan, judge_rung
from apex_framework.experiment.planfile import PlanFile, read_plan_file

PLAN = """
[prereg]
hypothesis = "it helps"
estimand = "success"
arm = "bandit_v1"
against = ["static_star", "static_chain", "single"]

[[part]]
name = "main"
suite = "mini/test"
limit = 160
best_static = "static_star"
arms = ["bandit_v1", "static_star", "static_chain", "single"]
"""
Solves = Callable[[int], bool]


def finished(tmp_path: Path, solves: Mapping[str, Solves], text: str = PLAN, clusters: int = 40) -> PlanFile:
    """A plan and the run folder of its part: 160 tasks."""
    (tmp_path / "plan.toml").write_text(text)
    (tmp_path / "main").mkdir()
    lines = [
        {
            "arm": arm,
            "task_id": f"t{t:03}",
            "seed": 0,
            "success": solves[arm](t),
            "tokens": 9,
            "steps": 1,
            "switches": 0,
        }
        | {"denied": 0, "status": "done", "cluster": f"m{t % clusters}", "suite_digest": "d"}
        for arm in solves
        for t in range(160)
    ]
    (tmp_path / "main" / "episodes.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    arms = [
        {"name": arm, "team": "single" if arm == "single" else "swe", "controller": arm.replace("_", ":")}
        for arm in solves
    ]
    plan = {"suite": "mini", "split": "test", "suite_digest": "d", "level": "L2", "arms": arms, "seeds": [0]}
    tasks = [[f"t{t:03}", f"m{t % clusters}", ""] for t in range(160)]
    (tmp_path / "main" / "run.json").write_text(json.dumps({"format": 1, "plan": {**plan, "tasks": tasks}}))
    return read_plan_file(tmp_path / "plan.toml")


def decided(plan: PlanFile) -> Decision:
    decision = decide_plan(plan, plan.path.parent, registered=True)
    assert decision is not None
    return decision


def first(n: int) -> Solves:
    """The first n tasks are solved, and so as many in every cluster, but for one."""
    return lambda task: task < n


WORLD = {"bandit_v1": first(80), "static_star": first(64), "static_chain": first(64), "single": first(64)}
"""A gain of 10 points over everybody."""


@pytest.mark.parametrize(("claim", "word"), [(0.05, "GO"), (0.1, "GO"), (0.11, "EXTEND"), (0.2, "KILL")])
def test_go_needs_the_gain_that_is_claimed_and_kill_excludes_it(tmp_path: Path, claim: float, word: str) -> None:
    decision = decided(finished(tmp_path, WORLD, PLAN.replace("[[part]]", f"claim = {claim}\n[[part]]")))
    assert decision.word == word
    assert f"gains +{100 * claim:.1f} pp over the best static" in decision.rule


@pytest.mark.parametrize("left_out", ["static_chain", "single"])
def test_a_baseline_of_the_part_that_against_leaves_out_keeps_it_from_go(tmp_path: Path, left_out: str) -> None:
    world = {**WORLD, left_out: first(90)}  # better than the arm, and nobody was to look
    decision = decided(
        finished(tmp_path, world, PLAN.replace(f'"{left_out}"', "", 1).replace(", ,", ",").replace(", ]", "]"))
    )
    assert (decision.word, decision.missing) == ("EXTEND", (left_out,))
    assert "BETTER" not in decision.sentence
    assert decision.sentence.endswith(f"Nothing is said of {left_out}: not registered.")


def test_with_every_baseline_it_is_go(tmp_path: Path) -> None:
    decision = decided(finished(tmp_path, WORLD))
    assert (decision.word, decision.missing) == ("GO", ())
    assert decision.sentence.startswith("BETTER: bandit_v1 solves more tasks")


@pytest.mark.parametrize(("clusters", "told"), [(40, "of sign flips of 40 clusters"), (160, "of exact McNemar")])
def test_holm_corrects_the_test_that_fits_the_clusters_and_it_is_named(
    tmp_path: Path, clusters: int, told: str
) -> None:
    plan = finished(tmp_path, {**WORLD, "static_chain": lambda task: task % 4 == 0}, clusters=clusters)
    rung = judge_rung(plan.parts[0], tmp_path / "main", 10_000)
    p = {lift.against: lift.p_cluster if clusters == 40 else lift.p_exact for lift in rung.lifts}
    assert min(rung.holm.values()) == pytest.approx(3 * min(p.values()))
    text = text_of([rung], None, [], tmp_path)
    assert f"  Holm p: {told}, two-sided, 3 at once" in text
