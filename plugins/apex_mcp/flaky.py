"""Tests whose results disagree: what to repeat, what to say of it, and every result as a line of its own."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from apex_framework.interfaces import TestOutcome, TestReport

DISAGREEMENTS: Final = 2
"""So many changes from one result of a test to its next make it flaky."""
_GOOD = ("passed", "skipped")


def to_repeat(reports: Sequence[TestReport]) -> list[str]:
    """Tests of which more is to be known: they never passed yet, or disagree with themselves too little to be flaky."""
    again = []
    for first in reports[0].outcomes:
        results = _results(first.id, reports)
        changes = _changes(results)
        settled = all(r.status in _GOOD for r in results) or changes >= DISAGREEMENTS
        if not settled and (changes or len(results) < 1 + DISAGREEMENTS):
            again.append(first.id)
    return again


def merged(value: Mapping[str, Any], reports: Sequence[TestReport]) -> dict[str, Any]:
    """The first run's value with the last word on each test: ``flaky`` after two disagreements, else its worst result."""
    tests, passed = [], 0
    for first in reports[0].outcomes:
        results = _results(first.id, reports)
        bad = [r for r in results if r.status not in _GOOD]
        word = bad[0] if bad else first
        status = "flaky" if _changes(results) >= DISAGREEMENTS else word.status
        passed += status == "passed"
        tests.append({"id": first.id, "status": status, "detail": word.detail, "attempts": [r.status for r in results]})
    total = len(tests)
    counts = {"passed": passed, "failed": total - passed, "pass_rate": passed / total if total else 0.0}
    flaky = sum(test["status"] == "flaky" for test in tests)
    return {**value, **counts, "flaky": flaky, "tests": tests, "cost_s": sum(report.cost_s for report in reports)}


def lines(agent: str, run: int, reports: Sequence[TestReport]) -> str:
    """One line of JSON per test and attempt, with its newline."""
    found = (
        {"agent": agent, "run": run, "attempt": attempt, "id": o.id, "status": o.status, "detail": o.detail}
        for attempt, report in enumerate(reports, 1)
        for o in report.outcomes
    )
    return "".join(f"{json.dumps(line)}\n" for line in found)


def append_lines(path: Path, agent: str, run: int, reports: Sequence[TestReport]) -> None:
    """Append the lines in one write, so that those of two runs do not mix. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        left = memoryview(lines(agent, run, reports).encode())
        while left:
            left = left[os.write(fd, left) :]
    finally:
        os.close(fd)


def _results(test: str, reports: Sequence[TestReport]) -> list[TestOutcome]:
    return [o for report in reports for o in report.outcomes if o.id == test]


def _changes(results: Sequence[TestOutcome]) -> int:
    kinds = [r.status in _GOOD for r in results]
    return sum(a != b for a, b in itertools.pairwise(kinds))
