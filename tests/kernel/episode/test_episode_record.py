"""What an episode leaves behind: its line, one decision per step, transitions that a controller can learn from."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from stage import Stage
from tiny_suite import PROBLEMS

from apex_framework.hookspecs import Add, ApexSpec, hookimpl
from apex_framework.interfaces import (
    STAY,
    Controller,
    Decision,
    EpisodeContext,
    EpisodeJob,
    EpisodeResult,
    Observation,
    Transition,
    infrastructure_failure,
)

ARMS: dict[str, dict[str, Any]] = {
    "star": {"controller": "static:star"},
    "chain": {"controller": "static:chain"},
    "flat": {"controller": "static:flat"},
    "random": {"controller": "random_switch:1.0"},
    "phases": {"controller": "phase_heuristic"},
    "bandit": {"controller": "bandit_v1", "controller_options": {"policy": "none"}},
    "single": {"team": "single"},
    "manager": {"team": "manager"},
}

COLUMNS: dict[str, type] = {
    "arm": str,
    "task_id": str,
    "seed": int,
    "success": bool,
    "tokens": int,
    "steps": int,
    "switches": int,
    "denied": int,
    "status": str,
    "reason": str,
    "visible_passed": bool,
    "overfit": bool,
    "overspent": int,
    "violations": int,
    "aborted": int,
    "calls": int,
    "failed_calls": int,
    "message_tokens": int,
    "denied_tokens": int,
    "test_runs": int,
    "topologies": dict,
    "budget": int,
    "cluster": str,
    "family": str,
    "suite_digest": str,
    "evaluator": str,
    "faults": list,
    "decision_ms": list,
}


@pytest.fixture(scope="module", params=ARMS)
def result(request: pytest.FixtureRequest, stage: Stage) -> EpisodeResult:
    """An episode of every kind of arm."""
    return stage.play("clamp", 3, {"transitions": True, "explore": True}, **ARMS[request.param])


def test_the_line_has_every_promised_column(result: EpisodeResult) -> None:
    assert {name: type(value) for name, value in result.record.items()} == COLUMNS
    assert result.record["status"] == "finished" and result.record["faults"] == []
    assert result.record["success"] and "+++ b/tiny/work.py" in result.patch
    assert (result.record["seed"], result.record["evaluator"]) == (3, "tiny/hidden")


def test_a_line_of_infrastructure_has_the_same_columns_as_far_as_it_goes() -> None:
    failed = infrastructure_failure(EpisodeJob(0, {"name": "a"}, "t", 0), "why")
    assert {n: type(v) for n, v in failed.record.items()}.items() <= COLUMNS.items()


def test_everything_is_json_ready(result: EpisodeResult) -> None:
    for row in [result.record, *result.decisions, *result.switches, *result.calls, *result.trace]:
        assert json.loads(json.dumps(row, allow_nan=False)).keys() == row.keys()


def test_there_is_one_decision_per_step(result: EpisodeResult) -> None:
    assert [row["step"] for row in result.decisions] == list(range(result.record["steps"]))
    assert len(result.record["decision_ms"]) == len(result.decisions)
    assert result.decisions[0]["topology"] == "" and all(row["topology"] for row in result.decisions[1:])
    assert sum(result.record["topologies"].values()) == result.record["steps"]


def test_the_sums_of_calls_are_the_lines(result: EpisodeResult) -> None:
    made = [row for row in result.calls if row["status"] != "denied"]
    assert len(made) == result.record["calls"]
    assert sum(row["tokens_in"] + row["tokens_out"] for row in made) == result.record["tokens"]
    assert sum(row["message_tokens"] for row in made) == result.record["message_tokens"]
    assert len(result.calls) - len(made) == result.record["denied"]


def test_transitions_are_a_chain_of_decisions_that_ends_with_the_result(result: EpisodeResult) -> None:
    transitions: tuple[Transition, ...] = result.transitions
    assert len(transitions) == len(result.decisions)
    assert [t.decision.action for t in transitions] == [row["action"] for row in result.decisions]
    for before, after in itertools.pairwise(transitions):
        assert before.next_observation == after.observation and not before.outcome.terminal
    last = transitions[-1]
    assert last.next_observation is None and last.outcome.terminal
    assert last.outcome.success == result.record["success"]
    assert sum(t.outcome.tokens for t in transitions) == result.record["tokens"]
    assert sum(t.outcome.duration for t in transitions) == result.record["steps"]
    assert sum(t.outcome.switched for t in transitions) == result.record["switches"]
    assert sum(t.outcome.denied for t in transitions) == result.record["denied"]


def test_transitions_stay_at_home_unless_asked_for(stage: Stage) -> None:
    assert stage.play("clamp", controller="static:star").transitions == ()


class Diary:
    """Counts what a controller is told."""

    name = "diary"

    def __init__(self, book: list[str]) -> None:
        self._book = book

    def begin(self, episode: EpisodeContext) -> None:
        self._book.append("begin")

    def decide(self, observation: Observation) -> Decision:
        self._book.append("decide")
        return Decision(STAY if observation.topology else "star")

    def learn(self, transition: Transition) -> None:
        self._book.append("end" if transition.outcome.terminal else "learn")


class Controllers(ApexSpec):
    """Registers the diary."""

    def __init__(self) -> None:
        self.book: list[str] = []

    @hookimpl
    def apex_controllers(self, add: Add[Controller]) -> None:
        add("diary", lambda: Diary(self.book), summary="for a test")


@pytest.mark.parametrize(("task", "more"), [("clamp", {}), ("roman", {"budget": 2_000}), ("clamp", {"max_steps": 3})])
def test_learn_is_called_once_per_decision_and_the_end_is_told_once(task: str, more: dict[str, Any]) -> None:
    controllers = Controllers()
    stage = Stage(diary=controllers)
    try:
        record = stage.play(task, controller="diary", **more).record
    finally:
        stage.close()
    steps = record["steps"]
    assert controllers.book == ["begin", "decide", *["learn", "decide"] * (steps - 1), "end"]


def test_a_session_that_goes_quiet_is_no_error(stage: Stage) -> None:
    result = stage.play("clamp", max_steps=3)
    assert result.record["status"] == "max_steps" and not result.record["success"] and result.patch == ""
    assert len(result.decisions) == result.record["steps"] == 3


def test_hidden_tests_decide_and_an_overfit_is_said(stage: Stage) -> None:
    record = stage.play("count", controller="static:star").record
    assert record["visible_passed"] and record["overfit"] and not record["success"]
    assert PROBLEMS["count"].mended not in stage.play("count", controller="static:star").patch
