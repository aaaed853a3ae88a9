"""A repository's tests: which pass each time, what they cover, and what they say to a fault."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from apex_framework.errors import SuiteError
from apex_framework.interfaces import RunsTests, Task, TestReport, Workspace, WorkspaceProvider
from apex_framework.ports import rng

from ..mini.faults import Fault, find_faults
from ..mini.operators_other import CATALOGUE
from ..mini.text import SourceText

RUN_S = 900.0
"""Longest test run, in seconds."""
MOST_SOURCE = 300_000
"""Characters of a file that faults are made in."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Tests of the repository as it is. ``covered`` maps path -> line -> the tests that come by."""

    stable: tuple[str, ...]
    unstable: tuple[str, ...]
    """Tests that do not pass each time, or have a space in their name: no task relies on them."""
    covered: Mapping[str, Mapping[int, frozenset[str]]] = field(default_factory=dict)


class Trial:
    """The repository in a workspace. Raises WorkspaceError when its tests cannot be collected or run."""

    def __init__(self, provider: WorkspaceProvider, repo: str, commit: str, run: Mapping[str, Any]) -> None:
        task = Task("make", "synth", "test", "", repo, repo=repo, base_commit=commit, run=run)
        workspace: Workspace = provider.create(task)
        if not isinstance(workspace, RunsTests):
            raise SuiteError("these workspaces cannot run tests")
        self.workspace, self._runs = workspace, workspace
        self._sound: dict[tuple[str, ...], frozenset[str]] = {}

    def close(self) -> None:
        """Remove the workspace."""
        self.workspace.dispose()

    def text(self, path: str) -> str:
        """A file of the repository. Raises OSError, UnicodeDecodeError."""
        return (self.workspace.root / path).read_bytes().decode()

    def run(
        self, tests: Iterable[str], files: Mapping[str, str] | None = None, *, coverage: bool = False
    ) -> TestReport:
        """Tests with other texts of some files."""
        return self._runs.run_tests(list(tests), timeout_s=RUN_S, coverage=coverage, overlay=files or {})

    def baseline(self) -> Baseline:
        """All tests, three times. Raises SuiteError when none passes each time."""
        every = list(self._runs.discover())
        if not every:
            raise SuiteError("the repository has no tests that are found", "--tests PATH")
        first, *others = (self.run(every, coverage=number == 0) for number in range(3))
        statuses = zip(every, *([o.status for o in run.outcomes] for run in (first, *others)), strict=True)
        # The official log parsers read a name up to its first space.
        stable = [test for test, *told in statuses if set(told) == {"passed"} and not re.search(r"\s", test)]
        if not stable:
            one = first.outcomes[0]
            said = next((line.strip() for line in reversed(one.detail.splitlines()) if line.strip()), one.status)
            raise SuiteError(
                f"none of {len(every)} tests passes three times here; {one.id}: {said[:200]}",
                "install what its tests need",
            )
        skipped = {o.id for o in first.outcomes if o.status == "skipped"}
        kept = set(stable)
        covered: dict[str, dict[int, set[str]]] = {}
        for outcome in first.outcomes:
            for path, lines in outcome.lines.items() if outcome.id in kept else ():
                for line in lines:
                    covered.setdefault(path, {}).setdefault(line, set()).add(outcome.id)
        frozen = {path: {n: frozenset(t) for n, t in lines.items()} for path, lines in covered.items()}
        return Baseline(tuple(stable), tuple(t for t in every if t not in kept and t not in skipped), frozen)

    def sound(self, tests: tuple[str, ...]) -> frozenset[str]:
        """Those of some tests that pass, by themselves and twice, on the repository as it is."""
        if tests not in self._sound:
            runs = [self.run(tests) for _ in range(2)]
            passed = [{o.id for o in run.outcomes if o.status == "passed"} for run in runs]
            self._sound[tests] = frozenset(passed[0] & passed[1])
        return self._sound[tests]


def faults_of(trial: Trial, baseline: Baseline, sources: tuple[str, ...], seed: int) -> Iterator[Fault]:
    """Every fault on lines that tests come by, files and operators taking turns, in an order that the seed decides."""
    groups: dict[tuple[str, str], list[Fault]] = {}
    for path in sorted(baseline.covered):
        if not path.endswith(".py") or (sources and not any(path == s or path.startswith(f"{s}/") for s in sources)):
            continue
        try:
            text = trial.text(path)
            found = SourceText(text) if len(text) <= MOST_SOURCE else None
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
            continue
        if found is None or "\r" in text:
            continue
        for fault in find_faults(path, found, set(baseline.covered[path]), CATALOGUE):
            groups.setdefault((path, fault.operator), []).append(fault)
    for (path, operator), group in groups.items():
        rng(seed, "synth", path, operator).shuffle(group)
    order = sorted(groups)
    rng(seed, "synth", "order").shuffle(order)
    for turn in range(max(map(len, groups.values()), default=0)):
        yield from (groups[name][turn] for name in order if turn < len(groups[name]))
