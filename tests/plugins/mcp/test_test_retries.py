"""Repeated tests: two disagreements make one flaky, budgets and deadlines stop repeating, every result is a line."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.interfaces import Capability, TestOutcome, TestReport, ToolCall, ToolResult
from apex_mcp import flaky
from apex_mcp.test import MOST_RETRIES, TestServer


class Scripted:
    """A workspace whose tests give the results of a script, one after the other."""

    root = Path("/nonexistent")

    def __init__(self, script: Mapping[str, Sequence[str]]) -> None:
        self.script = {test: list(results) for test, results in script.items()}
        self.runs: list[list[str]] = []

    def discover(self) -> list[str]:
        return list(self.script)

    def run_tests(self, tests: Sequence[str] | None = None, **options: Any) -> TestReport:
        chosen = list(self.script if tests is None else tests)
        self.runs.append(chosen)
        return TestReport(tuple(TestOutcome(t, self.script[t].pop(0), "d") for t in chosen), cost_s=1.0)

    def fork(self) -> Any:
        return self

    def commit(self) -> str:
        return "1"

    def rollback(self) -> None:
        return

    def dispose(self) -> None:
        return


def ask(workspace: Scripted, server: TestServer | None = None, **arguments: Any) -> ToolResult:
    call = ToolCall("test.run", arguments, Capability(workspace, frozenset(), agent_id="a1"))
    return asyncio.run((server or TestServer()).call(call))


P, F = "passed", "failed"


def test_two_disagreements_make_a_test_flaky() -> None:
    workspace = Scripted({"ok": [P], "bad": [F] * 3, "flaky": [F, P, F], "luck": [F, P, P, P]})
    value = ask(workspace, retries=3).value
    assert {t["id"]: t["status"] for t in value["tests"]} == {"ok": P, "bad": F, "flaky": "flaky", "luck": F}
    assert (value["passed"], value["failed"], value["flaky"], value["cost_s"]) == (1, 3, 1, 4.0)
    assert workspace.runs == [
        ["ok", "bad", "flaky", "luck"],
        ["bad", "flaky", "luck"],
        ["bad", "flaky", "luck"],
        ["luck"],
    ]


def test_without_retries_the_answer_is_as_ever() -> None:
    value = ask(Scripted({"bad": [F]})).value
    assert set(value) == {"status", "passed", "failed", "total", "pass_rate", "tests"}
    assert value["tests"] == [{"id": "bad", "status": F, "detail": "d"}]


def test_a_budget_stops_repeating() -> None:
    workspace = Scripted({"bad": [F] * 9})
    assert ask(workspace, retries=5, budget_s=2.5).value["cost_s"] == 2.0
    assert len(workspace.runs) == 2


@pytest.mark.parametrize(
    "arguments", [{"retries": -1}, {"retries": MOST_RETRIES + 1}, {"retries": True}, {"budget_s": 0}]
)
def test_impossible_repetitions_are_refused(arguments: dict[str, Any]) -> None:
    workspace = Scripted({"bad": [F] * 9})
    assert ask(workspace, **arguments).error == "E_ARG"
    assert workspace.runs == []


def test_every_result_is_a_line(tmp_path: Path) -> None:
    server = TestServer(results=tmp_path / "tests.jsonl")
    ask(Scripted({"ok": [P], "bad": [F, P, F]}), server, retries=2)
    ask(Scripted({"ok": [P]}), server)
    found = [json.loads(line) for line in (tmp_path / "tests.jsonl").read_text().splitlines()]
    assert [(f["run"], f["attempt"], f["id"], f["status"]) for f in found] == [
        (1, 1, "ok", P), (1, 1, "bad", F), (1, 2, "bad", P), (1, 3, "bad", F), (2, 1, "ok", P),
    ]  # fmt: skip
    assert {f["agent"] for f in found} == {"a1"}


@given(st.lists(st.sampled_from([P, F, "error", "timeout", "skipped"]), min_size=1, max_size=6))
def test_what_ever_failed_is_never_passed(results: list[str]) -> None:
    reports = [TestReport((TestOutcome("t", status),)) for status in results]
    status = flaky.merged({}, reports)["tests"][0]["status"]
    good = [r in (P, "skipped") for r in results]
    changes = sum(a != b for a, b in itertools.pairwise(good))
    assert (status == "flaky") == (changes >= 2)
    assert status != P or all(good)
