"""A suite of small hand-written tasks, as a plugin: real files, visible tests, hidden tests that decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl
from apex_framework.interfaces import RunsTests, Task, TaskSuite, Verdict, Workspace, WorkspaceProvider

VISIBLE, HIDDEN = "tests/test_visible.py", "tests/test_hidden.py"
HEAD = "import unittest\nfrom tiny import work\n\n\nclass T(unittest.TestCase):\n"


def tests_of(*checks: str) -> str:
    """A unittest file with one test per expression that must be true: ``left == right``."""
    tests = []
    for number, check in enumerate(checks):
        left, _, right = check.partition(" == ")
        tests.append(f"    def test_{number}(self):\n        self.assertEqual({left}, {right})\n")
    return HEAD + "\n".join(tests)


@dataclass(frozen=True)
class Problem:
    """One task with its secrets: the mended line and the hidden tests."""

    id: str
    issue: str
    source: str
    fault: str
    mended: str
    visible: tuple[str, ...]
    hidden: tuple[str, ...]

    @property
    def task(self) -> Task:
        """What agents may see."""
        return Task(
            id=self.id,
            suite="tiny",
            split="dev",
            issue=self.issue,
            cluster=self.id,
            family="clear",
            files={
                "tests/test_visible.py": tests_of(*self.visible),
                "tiny/__init__.py": "",
                "tiny/work.py": self.source,
            },
            run={"runner": "unittest", "tests": [VISIBLE], "step_budget": 2000},
        )


CLAMP = Problem(
    id="clamp",
    issue="clamp(5, 1, 3) returns 5 instead of 3.",
    source=(
        "def clamp(value, low, high):\n"
        "    if value < low:\n"
        "        return low\n"
        "    if value < high:\n"
        "        return high\n"
        "    return value\n"
        "\n\n"
        "def total(values):\n"
        "    result = 0\n"
        "    for value in values:\n"
        "        result = result + value\n"
        "    return result\n"
    ),
    fault="    if value < high:",
    mended="    if value > high:",
    visible=(
        "work.clamp(5, 1, 3) == 3",
        "work.clamp(2, 1, 3) == 2",
        "work.clamp(0, 1, 3) == 1",
        "work.total([1, 2]) == 3",
    ),
    hidden=("work.clamp(9, 1, 3) == 3", "work.clamp(3, 1, 3) == 3", "work.clamp(-4424242, -7, 3) == -7"),
)
"""One comparison: the embedded solver mends it."""

COUNT = Problem(
    id="count",
    issue="count_up_to([1, 2, 3], 2) should be 2 but is 1: the limit itself is not counted.",
    source=(
        "def count_up_to(values, limit):\n"
        '    """Number of values that do not exceed a limit."""\n'
        "    found = 0\n"
        "    for value in values:\n"
        "        if value < limit:\n"
        "            found += 1\n"
        "    return found\n"
        "\n\n"
        "def last(values):\n"
        "    return values[-1]\n"
    ),
    fault="        if value < limit:",
    mended="        if value <= limit:",
    visible=("work.count_up_to([1, 2, 3], 2) == 2", "work.count_up_to([5], 2) == 0", "work.last([1, 7]) == 7"),
    hidden=(
        "work.count_up_to([2, 2, 2], 2) == 3",
        "work.count_up_to([], 9424242) == 0",
        "work.count_up_to([1, 3], 2) == 1",
    ),
)
"""The visible tests are weak: the embedded solver pleases them with a change that is wrong."""

ROMAN = Problem(
    id="roman",
    issue="roman(4) gives IIII, it should be IV.",
    source=(
        "VALUES = ((10, 'X'), (5, 'V'), (1, 'I'))\n"
        "\n\n"
        "def digits(number):\n"
        "    text = ''\n"
        "    for value, sign in VALUES:\n"
        "        while number >= value:\n"
        "            text += sign\n"
        "            number -= value\n"
        "    return text\n"
        "\n\n"
        "def roman(number):\n"
        "    if number <= 0:\n"
        "        raise ValueError(number)\n"
        "    return digits(number)\n"
        "\n\n"
        "def width(number):\n"
        "    return len(roman(number))\n"
    ),
    fault="VALUES = ((10, 'X'), (5, 'V'), (1, 'I'))",
    mended="VALUES = ((10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I'))",
    visible=("work.roman(4) == 'IV'", "work.roman(9) == 'IX'", "work.roman(3) == 'III'", "work.width(14) == 3"),
    hidden=("work.roman(19) == 'XIX'", "work.roman(24) == 'XXIV'"),
)
"""Needs an insight: the embedded solver works until its budget ends."""

PROBLEMS = {p.id: p for p in (CLAMP, COUNT, ROMAN)}


class TinySuite:
    """The problems; ``digest`` is a constant, for they never change."""

    name = "tiny"
    digest = "tiny-1"

    def __init__(self, *, workspaces: Callable[[], WorkspaceProvider], limit: int | None = None) -> None:
        self._workspaces = workspaces
        self._limit = limit

    def tasks(self, split: str) -> Sequence[Task]:
        return [p.task for p in PROBLEMS.values()][: self._limit]

    def workspaces(self) -> WorkspaceProvider:
        return self._workspaces()

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        assert isinstance(workspace, RunsTests)
        problem = PROBLEMS[task.id]
        overlay: Mapping[str, str] = {VISIBLE: tests_of(*problem.visible), HIDDEN: tests_of(*problem.hidden)}
        ids = {
            path: [f"{path}::T.test_{n}" for n in range(len(checks))]
            for path, checks in ((VISIBLE, problem.visible), (HIDDEN, problem.hidden))
        }
        report = workspace.run_tests([*ids[VISIBLE], *ids[HIDDEN]], overlay=overlay)
        passed = {o.id for o in report.outcomes if o.status == "passed"}
        return Verdict(passed.issuperset([*ids[VISIBLE], *ids[HIDDEN]]), "tiny/hidden", passed.issuperset(ids[VISIBLE]))


def _tiny(**options: Any) -> TaskSuite:
    return TinySuite(**options)


class Tiny(ApexSpec):
    """Registers the suite."""

    @hookimpl
    def apex_suites(self, add: Add[TaskSuite]) -> None:
        add("tiny", _tiny, summary="three small problems")


plugin = Tiny()
