"""One broken workspace provider per check of the kit: each fails exactly that one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ...errors import WorkspaceError
from ...interfaces import Task, TestOutcome, TestReport, WorkspaceProvider

_RUNNER = """
import json, os, sys, unittest
ids = json.loads(sys.argv[1])
sys.path.insert(0, os.getcwd())
root, budget = os.path.join(os.getcwd(), ""), 5000
class Endless(BaseException): pass
def trace(frame, event, arg):
    global steps
    if not frame.f_code.co_filename.startswith(root): return None
    if event == "line":
        steps += 1
        if steps > budget: raise Endless
        if "tests" not in frame.f_code.co_filename: lines.add(frame.f_lineno)
    return trace
from tests.test_kit import Kit
out = []
for id in ids:
    steps, lines = 0, set()
    case, status, detail = Kit(id.rpartition(".")[2]), "passed", ""
    sys.settrace(trace)
    try:
        getattr(case, id.rpartition(".")[2])()
    except Endless: status = "timeout"
    except AssertionError as e: status, detail = "failed", str(e)
    except Exception as e: status, detail = "error", str(e)
    sys.settrace(None)
    out.append([status, detail, sorted(lines)])
print(json.dumps(out))
"""


def _run(files: tuple[tuple[str, str], ...], tests: tuple[str, ...]) -> tuple[TestOutcome, ...]:
    # A test that leaves a process must do so each time.
    return (_really_run if any(t.endswith("_process") for t in tests) else _run_once)(files, tests)


@lru_cache(maxsize=256)
def _run_once(files: tuple[tuple[str, str], ...], tests: tuple[str, ...]) -> tuple[TestOutcome, ...]:
    return _really_run(files, tests)


def _really_run(
    files: tuple[tuple[str, str], ...], tests: tuple[str, ...], before: str = ""
) -> tuple[TestOutcome, ...]:
    """Run tests in a copy, after a statement."""
    with tempfile.TemporaryDirectory() as place:
        _write(Path(place), dict(files))
        argv = [sys.executable, "-I", "-S", "-B", "-c", before + _RUNNER, json.dumps(tests)]
        # Into a file: a process that a test leaves behind would keep a pipe open.
        with tempfile.TemporaryFile() as answers:
            subprocess.run(argv, cwd=place, stdout=answers, stderr=subprocess.DEVNULL, timeout=60, check=True)
            answers.seek(0)
            facts = json.load(answers)
    return tuple(
        TestOutcome(test, status, detail, {"pkg/m.py": tuple(lines)} if lines else {})
        for test, (status, detail, lines) in zip(tests, facts, strict=True)
    )


def _write(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def _read(root: Path) -> dict[str, str]:
    return {p.relative_to(root).as_posix(): p.read_text() for p in sorted(root.rglob("*")) if p.is_file()}


class Space:
    """A workspace with nothing wrong."""

    def __init__(self, provider: Sound, root: Path, files: Mapping[str, str]) -> None:
        self.provider, self._root, self.kept = provider, root, dict(files)
        root.mkdir()
        _write(root, files)

    @property
    def root(self) -> Path:
        """Its folder."""
        return self._root

    def fork(self) -> Space:
        """A copy."""
        return type(self)(self.provider, self.provider.folder(), _read(self._root))

    def commit(self) -> str:
        """Remember."""
        self.kept = _read(self._root)
        return "savepoint"

    def rollback(self) -> None:
        """Return."""
        self.clear()
        _write(self._root, self.kept)

    def clear(self) -> None:
        """Remove what is there."""
        for path in self._root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def dispose(self) -> None:
        """Remove it."""
        shutil.rmtree(self._root, ignore_errors=True)

    def discover(self) -> Sequence[str]:
        """By pattern."""
        text = (self._root / "tests/test_kit.py").read_text()
        return [f"tests/test_kit.py::Kit.{name}" for name in re.findall(r"def (test_\w+)", text)]

    def run_tests(
        self,
        tests: Sequence[str] | None = None,
        *,
        timeout_s: float = 120.0,
        coverage: bool = False,
        overlay: Mapping[str, str] | None = None,
    ) -> TestReport:
        """In a copy."""
        files = {**_read(self._root), **(overlay or {})}
        chosen = tuple(self.discover() if tests is None else tests)
        outcomes = self.outcomes(files, chosen)
        return TestReport(outcomes if coverage else tuple(replace(o, lines={}) for o in outcomes), cost_s=1.0)

    def outcomes(self, files: Mapping[str, str], tests: tuple[str, ...]) -> tuple[TestOutcome, ...]:
        """Each test's, its processes ended."""
        outcomes = _run(tuple(files.items()), tests)
        for outcome in outcomes:
            if match := re.search(r"pid=(\d+);", outcome.detail):
                self.end(int(match[1]))
        return outcomes

    def end(self, pid: int) -> None:
        """Kill a process that was left."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Sound:
    """A provider with nothing wrong."""

    space: type[Space] = Space

    def __init__(self) -> None:
        self._place = Path(tempfile.mkdtemp()).resolve()
        self._made = 0
        self.left: list[int] = []

    def folder(self) -> Path:
        """A name that is free."""
        self._made += 1
        return self._place / f"w{self._made}"

    def create(self, task: Task) -> Space:
        """Checks, then writes."""
        self.check(task)
        return self.space(self, self.folder(), self.files(task))

    def check(self, task: Task) -> None:
        """Paths."""
        for path in task.files:
            if path.startswith("/") or ".." in path.split("/"):
                raise WorkspaceError(f"{path} is outside")

    def files(self, task: Task) -> Mapping[str, str]:
        """What to write."""
        return task.files

    def close(self) -> None:
        """Remove all."""
        shutil.rmtree(self._place, ignore_errors=True)


def _with(space: type[Space]) -> Callable[[], WorkspaceProvider]:
    return type(f"Makes{space.__name__}", (Sound,), {"space": space})


class BringsHistory(Sound):
    """Leaves a history in the workspace."""

    def create(self, task: Task) -> Space:
        """With an empty .git."""
        made = super().create(task)
        (made.root / ".git").mkdir()
        return made


class OneForAll(Sound):
    """Gives everyone the same folder."""

    _first: Space | None = None

    def create(self, task: Task) -> Space:
        """The first one again."""
        if self._first is None:
            self._first = super().create(task)
        return self._first


class ForksTheOrigin(Space):
    """Forks the savepoint, not the present."""

    def fork(self) -> Space:
        """Too old."""
        return type(self)(self.provider, self.provider.folder(), self.kept)


class KeepsNewFiles(Space):
    """Rollback leaves what was added."""

    def clear(self) -> None:
        """Nothing."""


class ForgetsCommits(Space):
    """Commit remembers nothing."""

    def commit(self) -> str:
        """Only an id."""
        return "savepoint"


class TrustsTasks(Sound):
    """Takes any path, though it writes none outside."""

    def check(self, task: Task) -> None:
        """Nothing."""

    def files(self, task: Task) -> Mapping[str, str]:
        """Only the good ones."""
        return {p: t for p, t in task.files.items() if not p.startswith("/") and ".." not in p}


class NeverRemoves(Space):
    """Dispose does nothing."""

    def dispose(self) -> None:
        """Nothing."""


class ClosesOnce(Sound):
    """Cannot be closed again."""

    def close(self) -> None:
        """Only with something there."""
        shutil.rmtree(self._place)


class DiscoversByImport(Space):
    """Runs the head of the test file to find tests."""

    def discover(self) -> Sequence[str]:
        """Task code runs here."""
        if (self._root / "tests/test_kit.py").read_text().startswith("open("):
            (self._root / "trap.txt").touch()
        return super().discover()


class CallsErrorsFailures(Space):
    """Does not tell an error from a failure."""

    def outcomes(self, files: Mapping[str, str], tests: tuple[str, ...]) -> tuple[TestOutcome, ...]:
        """One word for both."""
        found = super().outcomes(files, tests)
        return tuple(replace(o, status="failed") if o.status == "error" else o for o in found)


class MixesCoverage(Space):
    """Gives every test the lines of all."""

    def outcomes(self, files: Mapping[str, str], tests: tuple[str, ...]) -> tuple[TestOutcome, ...]:
        """Joined."""
        found = super().outcomes(files, tests)
        lines = sorted({line for o in found for line in o.lines.get("pkg/m.py", ())})
        return tuple(replace(o, lines={"pkg/m.py": tuple(lines)}) for o in found)


class WritesOverlays(Space):
    """Writes the overlay and leaves it."""

    def run_tests(
        self,
        tests: Sequence[str] | None = None,
        *,
        timeout_s: float = 120.0,
        coverage: bool = False,
        overlay: Mapping[str, str] | None = None,
    ) -> TestReport:
        """Into the workspace."""
        _write(self._root, overlay or {})
        return super().run_tests(tests, timeout_s=timeout_s, coverage=coverage)


class RunsInPlace(Space):
    """Tests write where agents work."""

    def outcomes(self, files: Mapping[str, str], tests: tuple[str, ...]) -> tuple[TestOutcome, ...]:
        """As if it ran there."""
        if any(t.endswith("_writes") for t in tests):
            (self._root / "new.txt").write_text("new")
        return super().outcomes(files, tests)


class StopsAtTheEndless(Space):
    """After an endless test nothing runs."""

    def outcomes(self, files: Mapping[str, str], tests: tuple[str, ...]) -> tuple[TestOutcome, ...]:
        """All of them time out."""
        found = super().outcomes(files, tests)
        endless = any(o.status == "timeout" for o in found)
        return tuple(replace(o, status="timeout") for o in found) if endless else found


class MeasuresTime(Space):
    """Declares a cost that never is the same."""

    runs = 0

    def run_tests(
        self,
        tests: Sequence[str] | None = None,
        *,
        timeout_s: float = 120.0,
        coverage: bool = False,
        overlay: Mapping[str, str] | None = None,
    ) -> TestReport:
        """More each time."""
        self.runs += 1
        report = super().run_tests(tests, timeout_s=timeout_s, coverage=coverage, overlay=overlay)
        return replace(report, cost_s=float(self.runs))


class LeavesProcesses(Space):
    """Ends nothing that a test leaves behind."""

    def end(self, pid: int) -> None:
        """Lives on until its provider is closed."""
        self.provider.left.append(pid)


class ClosesLate(Sound):
    """Ends processes only when it is closed."""

    space = LeavesProcesses

    def close(self) -> None:
        """Too late."""
        for pid in self.left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().close()


class IgnoresSignals(Space):
    """Shields itself from signals, and with it what it runs."""

    def outcomes(self, files: Mapping[str, str], tests: tuple[str, ...]) -> tuple[TestOutcome, ...]:
        """With SIGTERM ignored."""
        if not any(test.endswith("_starts") for test in tests):
            return super().outcomes(files, tests)
        return _really_run(tuple(files.items()), tests, "import signal; signal.signal(15, signal.SIG_IGN)")


BROKEN: dict[str, Callable[[], WorkspaceProvider]] = {
    "create_writes_the_files": BringsHistory,
    "workspaces_are_private": OneForAll,
    "fork_copies_the_present": _with(ForksTheOrigin),
    "rollback_returns_to_creation": _with(KeepsNewFiles),
    "rollback_returns_to_commit": _with(ForgetsCommits),
    "paths_stay_inside": TrustsTasks,
    "dispose_removes": _with(NeverRemoves),
    "close_is_idempotent": ClosesOnce,
    "discover_runs_nothing": _with(DiscoversByImport),
    "outcomes_are_right": _with(CallsErrorsFailures),
    "coverage_is_per_test": _with(MixesCoverage),
    "overlay_is_for_one_run": _with(WritesOverlays),
    "tests_leave_no_trace": _with(RunsInPlace),
    "endless_tests_end": _with(StopsAtTheEndless),
    "reports_repeat": _with(MeasuresTime),
    "processes_end_with_the_run": ClosesLate,
    "signals_do_what_they_do": _with(IgnoresSignals),
}
"""Check -> factory of a provider that fails it and no other."""
