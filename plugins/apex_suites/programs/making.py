"""How a program becomes a task: a fault that visible and hidden checks see, tried in the workspaces of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from apex_framework.errors import SuiteError
from apex_framework.interfaces import RunsTests, Task, TestReport, Workspace, WorkspaceProvider
from apex_framework.ports import rng

from ..mini.faults import Fault, find_faults, mutate
from ..mini.operators_other import CATALOGUE
from ..mini.text import SourceText
from .program import HIDDEN, PROGRAM, VISIBLE, Check, Program, render, test_id
from .telling import clip, how_it_ends

VERSION = 1
"""Raised when the same data and salt should make other tasks."""
TRIALS = 32
"""Most faults that are tried on one program."""
STEP_BUDGET = 200_000
"""Lines before a test counts as endless."""
TIMEOUT_S = 60.0
FAILING_VISIBLE, MOST_VISIBLE = 3, 9


@dataclass(frozen=True, slots=True)
class Draft:
    """A task as it is stored, hidden tests included."""

    id: str
    split: str
    issue: str
    family: str
    faulty: str
    extra: tuple[tuple[str, str], ...]
    visible: str
    visible_ids: tuple[str, ...]
    hidden: str
    hidden_ids: tuple[str, ...]
    meta: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A program that makes no task, and why."""

    id: str
    reason: str


class Trial:
    """One program in a workspace, where it and faulty forms of it are run. Raises WorkspaceError, SuiteError."""

    def __init__(self, program: Program, provider: WorkspaceProvider) -> None:
        self.program = program
        files = {PROGRAM: program.source, **dict(program.extra)}
        made: Workspace = provider.create(Task(program.id, "trial", "", "", program.id, files=files, run=run_of()))
        if not isinstance(made, RunsTests):
            raise SuiteError("these workspaces cannot run tests", "--set workspace=local")
        self._workspace, self._made = made, made
        self._tests = render(program.prelude, program.checks)

    def close(self) -> None:
        """Remove the workspace."""
        self._made.dispose()

    def run(self, text: str, *, coverage: bool = False) -> TestReport:
        """All checks on the program with this text."""
        overlay = {PROGRAM: text, VISIBLE: self._tests}
        ids = [test_id(VISIBLE, check) for check in self.program.checks]
        return self._workspace.run_tests(ids, timeout_s=TIMEOUT_S, coverage=coverage, overlay=overlay)


def run_of() -> dict[str, object]:
    """How a task's tests are run."""
    return {"runner": "unittest", "tests": [VISIBLE], "step_budget": STEP_BUDGET}


def make(program: Program, provider: WorkspaceProvider, salt: str) -> Draft | LeftOut:
    """The program's task, the same from the same salt. Raises WorkspaceError."""
    trial = Trial(program, provider)
    try:
        return _made(trial, salt)
    finally:
        trial.close()


def _made(trial: Trial, salt: str) -> Draft | LeftOut:
    program = trial.program
    first, again = trial.run(program.source, coverage=True), trial.run(program.source)
    passing = [
        n
        for n, (a, b) in enumerate(zip(first.outcomes, again.outcomes, strict=True))
        if a.status == b.status == "passed"
    ]
    lost = len(program.checks) - len(passing)
    if len(passing) < 2:
        return LeftOut(
            program.id, f"the right program passes {len(passing)} of {len(program.checks)} checks; 2 are needed"
        )
    if program.faulty:
        failing = _failing(trial, program.faulty, passing, endless=True)
        if failing is None:
            return LeftOut(program.id, "its fault behaves differently each time")
        if len(failing) < 2:
            return LeftOut(program.id, f"its fault is seen by {len(failing)} checks: none would be left to hide")
        return _draft(program, program.faulty, passing, failing, salt, {"checks_left_out": lost})
    lines = {line for outcome in first.outcomes for line in outcome.lines.get(PROGRAM, ())}
    source = SourceText(program.source)
    total: tuple[Fault, str, dict[int, str]] | None = None
    for fault, _ in zip(_shuffled(source, lines, salt, program.id), range(TRIALS), strict=False):
        text = mutate(source, (fault,))
        failing = _failing(trial, text, passing)
        if failing is None or len(failing) < 2:
            continue
        if len(failing) < len(passing):
            return _draft(program, text, passing, failing, salt, {"checks_left_out": lost, **_facts(fault)})
        total = total or (fault, text, failing)
    if total is None:
        return LeftOut(program.id, f"no fault that two checks see, in {TRIALS} trials")
    fault, text, failing = total
    return _draft(program, text, passing, failing, salt, {"checks_left_out": lost, **_facts(fault)})


def _failing(trial: Trial, text: str, passing: Sequence[int], *, endless: bool = False) -> dict[int, str] | None:
    """Checks that fail, with what they say; None when that is not the same twice, or, unless ``endless``, one does not end."""
    told = []
    for _ in range(2):
        report = trial.run(text)
        if not endless and (report.status != "finished" or any(o.status == "timeout" for o in report.outcomes)):
            return None
        told.append({n: report.outcomes[n].detail for n in passing if report.outcomes[n].status != "passed"})
        if len(told[0]) < 2:
            return told[0]  # too few to go on with: no second run is needed
    unstable = told[0] != told[1] or any(" at 0x" in detail for detail in told[0].values())
    return None if unstable else told[0]


def _shuffled(source: SourceText, lines: set[int], salt: str, name: str) -> Iterator[Fault]:
    """Faults on executed lines, operators taking turns."""
    groups: dict[str, list[Fault]] = {}
    for fault in find_faults(PROGRAM, source, lines, CATALOGUE):
        groups.setdefault(fault.operator, []).append(fault)
    for operator, group in groups.items():
        rng(salt, name, "faults", operator).shuffle(group)
    order = sorted(groups)
    rng(salt, name, "operators").shuffle(order)
    for turn in range(max(map(len, groups.values()), default=0)):
        yield from (groups[operator][turn] for operator in order if turn < len(groups[operator]))


def _facts(fault: Fault) -> dict[str, object]:
    return {
        "operators": [fault.operator],
        "in_vocabulary": fault.in_vocabulary,
        "sites": [{"path": fault.path, "function": fault.function, "line": fault.line}],
    }


def _draft(
    program: Program,
    faulty: str,
    passing: Sequence[int],
    failing: Mapping[int, str],
    salt: str,
    meta: dict[str, object],
) -> Draft:
    """Failing and passing checks are dealt out to both sides; at least one failing one to each."""
    draw = rng(salt, program.id, "hidden")
    bad, good = list(failing), [n for n in passing if n not in failing]
    draw.shuffle(bad)
    draw.shuffle(good)
    seen = bad[: min(FAILING_VISIBLE, len(bad) // 2)]
    seen += good[: min(MOST_VISIBLE - len(seen), (len(good) + 1) // 2)]
    visible = tuple(c for n, c in enumerate(program.checks) if n in seen)
    hidden = tuple(c for n, c in enumerate(program.checks) if n in passing and n not in seen)
    number = min(n for n in seen if n in failing)
    return Draft(
        id=program.id,
        split=program.split,
        issue=issue_text(program.entry, program.checks[number], failing[number]),
        family=program.family or ("known" if meta.get("in_vocabulary") else "unknown"),
        faulty=faulty,
        extra=program.extra,
        visible=render(program.prelude, visible),
        visible_ids=tuple(test_id(VISIBLE, c) for c in visible),
        hidden=render(program.prelude, hidden),
        hidden_ids=tuple(test_id(HIDDEN, c) for c in hidden),
        meta={**meta, "failing_visible": sum(n in failing for n in seen), "failing": len(failing)},
    )


def issue_text(entry: str, check: Check, detail: str) -> str:
    """The report, from one failing check: what should hold, and what came out."""
    return f"Problem with `{entry}`\n\nThis should hold:\n\n    {clip(check.shown)}\n\nbut it ends in: {how_it_ends(detail)}"
