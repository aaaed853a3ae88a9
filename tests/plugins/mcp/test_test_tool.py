"""The test tool: structured results, candidate edits that leave no trace, ids checked against discovery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from apex_framework.interfaces import Capability, ToolCall, ToolResult
from apex_mcp.test import TestServer
from apex_workspaces.local import LocalWorkspace

Ask = Callable[..., ToolResult]
FIX = {"path": "pkg/m.py", "line": 2, "search": "    return a - b", "replace": "    return a + b"}


def test_discover(ask: Ask) -> None:
    assert ask("test.discover").value == {"tests": ["tests/test_a.py::T.test_a", "tests/test_a.py::T.test_b"]}


def test_run_counts_and_details(ask: Ask) -> None:
    value = ask("test.run").value
    assert {k: value[k] for k in ("status", "passed", "failed", "total", "pass_rate")} == {
        "status": "finished",
        "passed": 1,
        "failed": 1,
        "total": 2,
        "pass_rate": 0.5,
    }
    assert value["tests"][0]["detail"].endswith("AssertionError: -1 != 3")
    assert "coverage" not in value


def test_coverage_is_per_test(ask: Ask) -> None:
    value = ask("test.run", coverage=True, tests=["tests/test_a.py::T.test_a"]).value
    assert value["coverage"] == {"tests/test_a.py::T.test_a": {"pkg/m.py": [2]}}


def test_candidate_edits_hold_for_one_run_only(ask: Ask, workspace: LocalWorkspace) -> None:
    assert ask("test.run", edits=[FIX]).value["pass_rate"] == 1.0
    assert workspace.diff() == ""
    assert ask("test.run").value["pass_rate"] == 0.5
    assert ask("test.run", edits=[{**FIX, "search": "nowhere"}]).error == "E_PATCH"


@pytest.mark.parametrize(
    "arguments",
    [
        {"tests": ["-p", "evil"]},
        {"tests": ["--rootdir=/"]},
        {"tests": ["tests/test_a.py::T.test_a; rm"]},
        {"tests": [3]},
        {"tests": "tests/test_a.py"},
        {"timeout_s": 0},
        {"timeout_s": float("nan")},
        {"timeout_s": "1"},
        {"coverage": 1},
        {"unknown": 1},
    ],
)
def test_malformed_arguments_are_refused(ask: Ask, arguments: dict[str, object]) -> None:
    assert ask("test.run", **arguments).error == "E_ARG"


def test_a_workspace_that_cannot_run_tests_is_refused(tmp_path: Path) -> None:
    class Bare:
        root = tmp_path

    capability = Capability(Bare(), frozenset())  # type: ignore[arg-type]  # a workspace without the ability
    result = asyncio.run(TestServer().call(ToolCall("test.run", {}, capability)))
    assert result.error == "E_TOOL"


def test_an_unknown_tool_is_refused(ask: Ask) -> None:
    assert ask("test.format_disk").error == "E_TOOL"
    assert ask("fs.format_disk").error == "E_TOOL"
