"""The ``test`` tool server: finds and runs the workspace's tests."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import RunsTests, TestReport, ToolCall, ToolResult, ToolSpec, Workspace
from apex_framework.ports import Effects, RealEffects

from . import flaky
from .fs import COST_S, Files
from .patching import apply_edits, edits_from
from .refusal import Refused, argument, only

TIMEOUT_S = 120.0
MOST_RETRIES = 5

_STRINGS = {"type": "array", "items": {"type": "string"}}
TOOLS = (
    ToolSpec(
        "test.discover",
        "Ids of the visible tests.",
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    ),
    ToolSpec(
        "test.run",
        "Run all or some tests; edits [{path, line, search, replace}] are applied for this run only, not written. "
        "retries repeats what did not pass; a test whose results disagree twice is flaky. "
        "budget_s is what the repetitions may cost in all, in declared seconds.",
        {
            "type": "object",
            "properties": {
                "tests": _STRINGS,
                "timeout_s": {"type": "number", "exclusiveMinimum": 0, "default": TIMEOUT_S},
                "coverage": {"type": "boolean", "default": False},
                "edits": {"type": "array", "items": {"type": "object"}},
                "retries": {"type": "integer", "minimum": 0, "maximum": MOST_RETRIES, "default": 0},
                "budget_s": {"type": "number", "exclusiveMinimum": 0},
            },
            "required": [],
            "additionalProperties": False,
        },
    ),
)


class TestServer:
    """Tools over a workspace that implements ``RunsTests``.

    ``results``: a file that gets one line of JSON per test and run: ``agent``, ``run`` (number), ``attempt``, ``id``,
    ``status``, ``detail``.
    """

    __test__ = False
    tools = TOOLS

    def __init__(self, *, effects: Effects | None = None, results: Path | None = None) -> None:
        self._effects = effects or RealEffects()
        self._results = results
        self._runs = 0

    async def call(self, call: ToolCall) -> ToolResult:
        """Run one tool; refusals are results, and so is a run in which every test fails."""
        workspace = call.capability.workspace
        try:
            if call.tool not in {tool.name for tool in TOOLS}:
                raise Refused("E_TOOL", f"no tool {call.tool!r}")
            if not isinstance(workspace, RunsTests):
                raise Refused("E_TOOL", "this workspace cannot run tests")
            if call.tool == "test.discover":
                only(call.arguments)
                tests = await self._effects.run(workspace.discover, cost=lambda _: COST_S)
                return ToolResult(True, {"tests": list(tests)})
            return await self._run(workspace, call)
        except Refused as refusal:
            return ToolResult(False, error=refusal.code, detail=refusal.detail)
        except WorkspaceError as error:
            return ToolResult(False, error="E_IO", detail=error.cause)

    async def close(self) -> None:
        """Nothing is held between calls: the workspace owns its processes."""

    async def discover(self, workspace: RunsTests) -> list[str]:
        """Ids of the visible tests."""
        return list(await self._effects.run(workspace.discover, cost=lambda _: COST_S))

    async def run(
        self, workspace: RunsTests, tests: list[str] | None = None, timeout_s: float = TIMEOUT_S
    ) -> TestReport:
        """Run tests; structured results with counts."""
        return await self._effects.run(
            lambda: workspace.run_tests(tests, timeout_s=timeout_s), cost=lambda report: report.cost_s
        )

    async def _run(self, workspace: RunsTests, call: ToolCall) -> ToolResult:
        arguments = call.arguments
        only(arguments, "tests", "timeout_s", "coverage", "edits", "retries", "budget_s")
        timeout_s = argument(arguments, "timeout_s", float, TIMEOUT_S)
        if not 0 < timeout_s < float("inf"):
            raise Refused("E_ARG", "timeout_s must be positive")
        coverage = argument(arguments, "coverage", bool, False)
        tests = argument(arguments, "tests", list) if "tests" in arguments else None
        retries = argument(arguments, "retries", int, 0)
        if not 0 <= retries <= MOST_RETRIES:
            raise Refused("E_ARG", f"retries must be between 0 and {MOST_RETRIES}")
        budget_s = argument(arguments, "budget_s", float, math.inf)
        if not budget_s > 0:
            raise Refused("E_ARG", "budget_s must be positive")
        repeating = "retries" in arguments or "budget_s" in arguments

        def work() -> list[TestReport]:
            if tests is not None:
                known = set(workspace.discover())
                if unknown := [t for t in tests if not isinstance(t, str) or t not in known]:
                    raise Refused("E_ARG", f"no test {str(unknown[0])[:80]!r}; ask test.discover")
            overlay = _overlay(call.capability.workspace, arguments)
            limit_s = min(timeout_s, call.deadline_s)
            until = time.monotonic() + limit_s
            reports = [workspace.run_tests(tests, timeout_s=limit_s, coverage=coverage, overlay=overlay)]
            for attempt in range(retries):
                again = flaky.to_repeat(reports)
                spent = sum(report.cost_s for report in reports)
                left = until - time.monotonic()
                # A repetition costs at most what the first run did: what may not fit is not begun.
                if not again or spent + reports[0].cost_s > budget_s or left <= 0:
                    break
                if call.progress is not None:
                    call.progress((attempt + 1) / (retries + 1), f"repeating {len(again)} tests")
                reports.append(workspace.run_tests(again, timeout_s=left, overlay=overlay))
            return reports

        reports = await self._effects.run(work, cost=lambda done: sum(report.cost_s for report in done))
        self._runs += 1
        if self._results is not None:
            flaky.append_lines(self._results, call.capability.agent_id, self._runs, reports)
        value = as_value(reports[0], coverage=coverage)
        return ToolResult(True, flaky.merged(value, reports) if repeating else value)


def as_value(report: TestReport, *, coverage: bool) -> dict[str, Any]:
    """A report as JSON: counts, one entry per test, and covered lines by test and path when asked for."""
    value: dict[str, Any] = {
        "status": report.status,
        "passed": report.passed,
        "failed": len(report.outcomes) - report.passed,
        "total": len(report.outcomes),
        "pass_rate": report.pass_rate,
        "tests": [{"id": o.id, "status": o.status, "detail": o.detail} for o in report.outcomes],
    }
    if coverage:
        value["coverage"] = {o.id: {p: list(lines) for p, lines in o.lines.items()} for o in report.outcomes}
    return value


def _overlay(workspace: Workspace, arguments: Mapping[str, Any]) -> dict[str, str] | None:
    if "edits" not in arguments:
        return None
    edits = edits_from(argument(arguments, "edits", list))
    with Files(workspace) as files:
        for edit in edits:
            files.check(edit.path)
        return apply_edits(edits, files.text)
