"""Conformance kit of workspace providers. Runs a few small tests in them when they can run tests."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from ..errors import WorkspaceError
from ..interfaces import RunsTests, Task, TestReport, Workspace, WorkspaceProvider
from .conformance import run_checks

KIND: Final = "workspace"

MODULE: Final = "def half(n):\n    if n < 0:\n        return -half(-n)\n    return n // 2\n"
TESTS: Final = """\
import os
import unittest
from pkg.m import half


class Kit(unittest.TestCase):
    def test_pass(self):
        self.assertEqual(half(4), 2)

    def test_fail(self):
        self.assertEqual(half(4), 3)

    def test_error(self):
        half(None)

    def test_negative(self):
        self.assertEqual(half(-4), -2)

    def test_endless(self):
        while True:
            half(1)

    def test_writes(self):
        with open("pkg/m.py", "a") as file:
            file.write("# touched")
        with open("new.txt", "w") as file:
            file.write("new")

    def test_leaves_a_process(self):
        child = os.fork()
        if child == 0:
            os.setsid()
            import time
            time.sleep(30)
            os._exit(0)
        self.fail(f"pid={child};")

    def test_ends_what_it_starts(self):
        import signal
        import time
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
        os.kill(child, signal.SIGTERM)
        deadline, ended = time.monotonic() + 5, 0
        while not ended and time.monotonic() < deadline:
            time.sleep(0.05)
            ended = os.waitpid(child, os.WNOHANG)[0]
        if not ended:
            os.kill(child, signal.SIGKILL)
        self.assertTrue(ended)
        with self.assertRaises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
"""
TASK: Final = Task(
    id="kit/1",
    suite="kit",
    split="dev",
    issue="half is wrong",
    cluster="kit",
    files={"pkg/__init__.py": "", "pkg/m.py": MODULE, "tests/test_kit.py": TESTS},
    run={"runner": "unittest", "tests": ["tests/test_kit.py"], "step_budget": 5000},
)
_TEST = "tests/test_kit.py::Kit.test_"

Make = Callable[[], WorkspaceProvider]


def check_workspace(make: Make) -> None:
    """Run every check on fresh providers; those on tests only where workspaces run them. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "create_writes_the_files": lambda: check_create_writes_the_files(make),
            "workspaces_are_private": lambda: check_workspaces_are_private(make),
            "fork_copies_the_present": lambda: check_fork_copies_the_present(make),
            "rollback_returns_to_creation": lambda: check_rollback_returns_to_creation(make),
            "rollback_returns_to_commit": lambda: check_rollback_returns_to_commit(make),
            "paths_stay_inside": lambda: check_paths_stay_inside(make),
            "dispose_removes": lambda: check_dispose_removes(make),
            "close_is_idempotent": lambda: check_close_is_idempotent(make),
            "discover_runs_nothing": lambda: check_discover_runs_nothing(make),
            "outcomes_are_right": lambda: check_outcomes_are_right(make),
            "coverage_is_per_test": lambda: check_coverage_is_per_test(make),
            "overlay_is_for_one_run": lambda: check_overlay_is_for_one_run(make),
            "tests_leave_no_trace": lambda: check_tests_leave_no_trace(make),
            "endless_tests_end": lambda: check_endless_tests_end(make),
            "reports_repeat": lambda: check_reports_repeat(make),
            "processes_end_with_the_run": lambda: check_processes_end_with_the_run(make),
            "signals_do_what_they_do": lambda: check_signals_do_what_they_do(make),
        },
    )


def check_create_writes_the_files(make: Make) -> None:
    """The task's files are there, and no history."""
    with _created(make) as workspace:
        for path, text in TASK.files.items():
            assert (workspace.root / path).read_text() == text, f"{path} is not as the task has it"
        assert workspace.root.is_absolute(), "root must be absolute"
        assert not (workspace.root / ".git").exists(), "there is a history"


def check_workspaces_are_private(make: Make) -> None:
    """Two workspaces of one task do not see each other."""
    provider = make()
    try:
        one, two = provider.create(TASK), provider.create(TASK)
        (one.root / "pkg/m.py").write_text("changed")
        assert (two.root / "pkg/m.py").read_text() == MODULE, "a change reached another workspace"
    finally:
        provider.close()


def check_fork_copies_the_present(make: Make) -> None:
    """A fork has the present state and goes its own way."""
    with _created(make) as workspace:
        (workspace.root / "pkg/m.py").write_text("present")
        fork = workspace.fork()
        assert (fork.root / "pkg/m.py").read_text() == "present", "the fork lacks the present state"
        (fork.root / "pkg/m.py").write_text("fork")
        assert (workspace.root / "pkg/m.py").read_text() == "present", "the fork changed its origin"


def check_rollback_returns_to_creation(make: Make) -> None:
    """Without a commit, rollback undoes changes, additions and removals."""
    with _created(make) as workspace:
        (workspace.root / "pkg/m.py").write_text("changed")
        (workspace.root / "more").mkdir()
        (workspace.root / "more/new.txt").write_text("new")
        (workspace.root / "tests/test_kit.py").unlink()
        workspace.rollback()
        assert _files(workspace) == dict(TASK.files), "rollback did not return to the creation"


def check_rollback_returns_to_commit(make: Make) -> None:
    """After a commit, rollback returns to it, not to the creation."""
    with _created(make) as workspace:
        (workspace.root / "pkg/m.py").write_text("kept")
        assert workspace.commit(), "commit must return an id"
        (workspace.root / "pkg/m.py").write_text("dropped")
        workspace.rollback()
        assert (workspace.root / "pkg/m.py").read_text() == "kept", "rollback did not return to the commit"


def check_paths_stay_inside(make: Make) -> None:
    """A task whose file lies outside the workspace raises WorkspaceError."""
    for path in ("../evil.txt", "/tmp/evil.txt", "a/../../evil.txt"):
        provider = make()
        try:
            provider.create(replace(TASK, files={path: "evil"}))
        except WorkspaceError:
            continue
        finally:
            provider.close()
        raise AssertionError(f"a task file {path!r} was accepted")


def check_dispose_removes(make: Make) -> None:
    """Dispose removes the directory, and may be called again."""
    with _created(make) as workspace:
        workspace.dispose()
        assert not workspace.root.exists(), "the directory is still there"
        workspace.dispose()


def check_close_is_idempotent(make: Make) -> None:
    """Close twice, used or not."""
    for used in (False, True):
        provider = make()
        if used:
            provider.create(TASK)
        provider.close()
        provider.close()


def check_discover_runs_nothing(make: Make) -> None:
    """Discovery lists every test and runs no code of the task."""
    trap = "open('trap.txt', 'w').close()\n"
    task = replace(TASK, files={**TASK.files, "tests/test_kit.py": trap + TESTS})
    with _created(make, task) as workspace:
        if isinstance(workspace, RunsTests):
            found = set(workspace.discover())
            names = set(re.findall(r"def test_(\w+)", TESTS))
            assert found == {_TEST + name for name in names}, f"discovered {sorted(found)}"
            assert not (workspace.root / "trap.txt").exists(), "discovery ran the test file"


def check_outcomes_are_right(make: Make) -> None:
    """Passed, failed and error are told apart, in the order asked, with a detail for what went wrong."""
    with _created(make) as workspace:
        if isinstance(workspace, RunsTests):
            report = _run(workspace, "pass", "fail", "error")
            statuses = [o.status for o in report.outcomes]
            assert statuses == ["passed", "failed", "error"], f"statuses are {statuses}"
            assert "2 != 3" in report.outcomes[1].detail, "the detail lacks the assertion's message"
            assert report.passed == 1, "one test passed"


def check_coverage_is_per_test(make: Make) -> None:
    """Lines are those that each test ran."""
    with _created(make) as workspace:
        if isinstance(workspace, RunsTests):
            report = _run(workspace, "pass", "negative", coverage=True)
            lines = [tuple(o.lines.get("pkg/m.py", ())) for o in report.outcomes]
            assert lines == [(2, 4), (2, 3, 4)], f"covered lines are {lines}"


def check_overlay_is_for_one_run(make: Make) -> None:
    """An overlay holds for its run, and only there."""
    with _created(make) as workspace:
        if isinstance(workspace, RunsTests):
            wrong = {"pkg/m.py": "def half(n):\n    return 0\n"}
            assert _run(workspace, "pass", overlay=wrong).passed == 0, "the overlay was not used"
            assert _run(workspace, "pass").passed == 1, "the overlay is still there"


def check_tests_leave_no_trace(make: Make) -> None:
    """Files that a test writes do not stay."""
    with _created(make) as workspace:
        if isinstance(workspace, RunsTests):
            _run(workspace, "writes")
            assert _files(workspace) == dict(TASK.files), "a test changed the workspace"


def check_endless_tests_end(make: Make) -> None:
    """An endless test ends as ``timeout``, and the one after it still runs."""
    with _created(make) as workspace:
        if isinstance(workspace, RunsTests):
            statuses = [o.status for o in _run(workspace, "endless", "pass").outcomes]
            assert statuses == ["timeout", "passed"], f"statuses are {statuses}"


def check_reports_repeat(make: Make) -> None:
    """The same tests of the same state give the same report, cost included."""
    with _created(make) as workspace:
        if isinstance(workspace, RunsTests):
            first, second = (_run(workspace, "pass", "fail", "error") for _ in range(2))
            assert first == second, "two reports of one state differ"
            assert first.cost_s > 0, "the declared cost must be positive"


def check_processes_end_with_the_run(make: Make) -> None:
    """A process that a test leaves behind is gone when the run returns."""
    with _created(make) as workspace:
        if isinstance(workspace, RunsTests):
            report = _run(workspace, "leaves_a_process")
            match = re.search(r"pid=(\d+);", report.outcomes[0].detail)
            assert match is None or not _alive(int(match[1])), "a process outlived its test run"


def check_signals_do_what_they_do(make: Make) -> None:
    """In a test SIGTERM ends a process that it started, and SIGINT raises KeyboardInterrupt: neither is ignored or held back."""
    with _created(make) as workspace:
        if isinstance(workspace, RunsTests):
            (outcome,) = _run(workspace, "ends_what_it_starts").outcomes
            assert outcome.status == "passed", f"a test cannot end what it started: {outcome.detail}"


@contextmanager
def _created(make: Make, task: Task = TASK) -> Iterator[Workspace]:
    provider = make()
    try:
        yield provider.create(task)
    finally:
        provider.close()


def _run(
    workspace: RunsTests, *names: str, coverage: bool = False, overlay: dict[str, str] | None = None
) -> TestReport:
    return workspace.run_tests([_TEST + n for n in names], timeout_s=60.0, coverage=coverage, overlay=overlay)


def _files(workspace: Workspace) -> dict[str, str]:
    root = workspace.root
    return {p.relative_to(root).as_posix(): p.read_text() for p in root.rglob("*") if p.is_file()}


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A zombie that nobody waited for has ended too.
    time.sleep(0.05)
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return not os.path.isdir("/proc/self")
