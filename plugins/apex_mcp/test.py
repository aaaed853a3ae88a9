"""The ``test`` tool server: finds and runs the workspace's tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import RunsTests, TestReport, ToolCall, ToolResult, ToolSpec, Workspace
from apex_framework.ports import Effects, RealEffects

from .fs import COST_S, Files
from .patching import apply_edits, edits_from
from .refusal import Refused, argument, only

TIMEOUT_S = 120.0

_STRINGS = {"type": "array", "items": {"type": "string"}}
TOOLS = (
    ToolSpec(
        "test.discover",
        "Ids of the visible tests.",
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    ),
    ToolSpec(
        "test.run",
        "Run all or some tests; edits [{path, line, search, replace}] are applied for this run only, not written.",
        {
            "type": "object",
            "properties": {
                "tests": _STRINGS,
                "timeout_s": {"type": "number", "exclusiveMinimum": 0, "default": TIMEOUT_S},
                "coverage": {"type": "boolean", "default": False},
                "edits": {"type": "array", "items": {"type": "object"}},
            },
            "required": [],
            "additionalProperties": False,
        },
    ),
)


class TestServer:
    """Tools over a workspace that implements ``RunsTests``."""

    __test__ = False
    tools = TOOLS

    def __init__(self, *, effects: Effects | None = None) -> None:
        self._effects = effects or RealEffects()

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
        only(arguments, "tests", "timeout_s", "coverage", "edits")
        timeout_s = argument(arguments, "timeout_s", float, TIMEOUT_S)
        if not 0 < timeout_s < float("inf"):
            raise Refused("E_ARG", "timeout_s must be positive")
        coverage = argument(arguments, "coverage", bool, False)
        tests = argument(arguments, "tests", list) if "tests" in arguments else None

        def work() -> TestReport:
            if tests is not None:
                known = set(workspace.discover())
                if unknown := [t for t in tests if not isinstance(t, str) or t not in known]:
                    raise Refused("E_ARG", f"no test {str(unknown[0])[:80]!r}; ask test.discover")
            overlay = _overlay(call.capability.workspace, arguments)
            return workspace.run_tests(
                tests, timeout_s=min(timeout_s, call.deadline_s), coverage=coverage, overlay=overlay
            )

        report = await self._effects.run(work, cost=lambda r: r.cost_s)
        return ToolResult(True, as_value(report, coverage=coverage))


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
