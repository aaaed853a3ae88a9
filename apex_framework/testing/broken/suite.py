"""One broken suite per check of the kit: each fails exactly that one."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import UsageError
from ...interfaces import Task, TaskSuite, TestOutcome, TestReport, Verdict, Workspace, WorkspaceProvider

TASK = Task(
    id="sum-1",
    suite="sound",
    split="dev",
    issue="answer.txt should hold 42",
    cluster="sum",
    files={"answer.txt": "41"},
    visible_tests=("answer.txt::Answer.test_right",),
)


class Place:
    """A workspace whose one test reads ``answer.txt``."""

    def __init__(self, root: Path, files: Mapping[str, str]) -> None:
        self._root, self._kept = root, dict(files)
        self.rollback()

    @property
    def root(self) -> Path:
        """Its folder."""
        return self._root

    def fork(self) -> Workspace:
        """A copy."""
        return Place(Path(tempfile.mkdtemp(dir=self._root.parent)), self._read())

    def commit(self) -> str:
        """Remember."""
        self._kept = self._read()
        return "savepoint"

    def rollback(self) -> None:
        """Return."""
        self.dispose()
        for path, text in self._kept.items():
            (self._root / path).parent.mkdir(parents=True, exist_ok=True)
            (self._root / path).write_text(text, encoding="utf-8")

    def dispose(self) -> None:
        """Remove."""
        shutil.rmtree(self._root, ignore_errors=True)

    def discover(self) -> Sequence[str]:
        """The one test."""
        return TASK.visible_tests

    def run_tests(
        self,
        tests: Sequence[str] | None = None,
        *,
        timeout_s: float = 120.0,
        coverage: bool = False,
        overlay: Mapping[str, str] | None = None,
    ) -> TestReport:
        """Look at the answer."""
        status = "passed" if self._read().get("answer.txt") == "42" else "failed"
        return TestReport(tuple(TestOutcome(t, status) for t in tests or TASK.visible_tests))

    def _read(self) -> dict[str, str]:
        return {p.relative_to(self._root).as_posix(): p.read_text() for p in self._root.rglob("*") if p.is_file()}


class Places:
    """A provider of such workspaces."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kit-suite-"))

    def create(self, task: Task) -> Workspace:
        """A fresh one."""
        return Place(Path(tempfile.mkdtemp(dir=self._folder)), task.files)

    def close(self) -> None:
        """Remove all."""
        shutil.rmtree(self._folder, ignore_errors=True)


class Sound:
    """A suite with nothing wrong: two tasks."""

    @property
    def name(self) -> str:
        """Its name."""
        return "sound"

    @property
    def digest(self) -> str:
        """Its digest."""
        return "d1"

    def tasks(self, split: str) -> Sequence[Task]:
        """Two tasks in dev."""
        if split != "dev":
            raise UsageError(f"no split {split!r}")
        return [TASK, replace(TASK, id="sum-2")]

    def workspaces(self) -> WorkspaceProvider:
        """Folders."""
        return Places()

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        """Whether the answer is right."""
        right = (workspace.root / "answer.txt").read_text(encoding="utf-8") == "42"
        return Verdict(right, "sound/answer", right)


class Nameless(Sound):
    """Has no name, and neither have its tasks' suites."""

    @property
    def name(self) -> str:
        """Empty."""
        return ""

    def tasks(self, split: str) -> Sequence[Task]:
        """Consistent with the name."""
        return [replace(t, suite="") for t in super().tasks(split)]


class FreshDigest(Sound):
    """Another digest each time."""

    _count = itertools.count()

    @property
    def digest(self) -> str:
        """A counter."""
        return f"d{next(self._count)}"


class OtherOrder(Sound):
    """Turns its tasks round at every call."""

    _count = itertools.count()

    def tasks(self, split: str) -> Sequence[Task]:
        """Forwards, backwards."""
        return list(super().tasks(split))[:: 1 if next(self._count) % 2 else -1]


class SameIds(Sound):
    """Both tasks have one id."""

    def tasks(self, split: str) -> Sequence[Task]:
        """Twice the same."""
        return [replace(t, id="sum") for t in super().tasks(split)]


class ForeignTasks(Sound):
    """Its tasks belong to another suite."""

    def tasks(self, split: str) -> Sequence[Task]:
        """Wrong suite."""
        return [replace(t, suite="other") for t in super().tasks(split)]


class NoIssue(Sound):
    """Its tasks do not say what is wrong."""

    def tasks(self, split: str) -> Sequence[Task]:
        """Without issue."""
        return [replace(t, issue=" ") for t in super().tasks(split)]


class AnySplit(Sound):
    """Takes every split for dev."""

    def tasks(self, split: str) -> Sequence[Task]:
        """Whatever is asked."""
        return [replace(t, split=split) for t in super().tasks("dev")]


class OtherFiles(Sound):
    """Its workspaces hold other files than its tasks."""

    def workspaces(self) -> WorkspaceProvider:
        """Changes the task on the way."""

        class Changing(Places):
            def create(self, task: Task) -> Workspace:
                return super().create(replace(task, files={"answer.txt": "40"}))

        return Changing()


class OtherTests(Sound):
    """Names visible tests that are not in its workspaces."""

    def tasks(self, split: str) -> Sequence[Task]:
        """One test too many."""
        return [replace(t, visible_tests=(*t.visible_tests, "x::Y.z")) for t in super().tasks(split)]


class TooKind(Sound):
    """Everything is a success."""

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        """Well done."""
        return Verdict(True, "sound/answer", True)


class NoJudge(Sound):
    """Nobody judged."""

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        """Without evaluator."""
        return replace(super().grade(task, workspace), evaluator="")


class Moody(Sound):
    """Says something else each time."""

    def __init__(self) -> None:
        self._count = itertools.count()

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        """With a counter."""
        return replace(super().grade(task, workspace), detail=str(next(self._count)))


class Messy(Sound):
    """Leaves its hidden test behind."""

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        """Writes into the workspace."""
        (workspace.root / "hidden.txt").write_text("42", encoding="utf-8")
        return super().grade(task, workspace)


BROKEN: dict[str, Callable[[], TaskSuite]] = {
    "name_is_stable": Nameless,
    "digest_repeats": FreshDigest,
    "tasks_repeat": OtherOrder,
    "ids_are_unique": SameIds,
    "tasks_say_where_they_belong": ForeignTasks,
    "tasks_are_complete": NoIssue,
    "unknown_split_is_refused": AnySplit,
    "workspaces_hold_the_files": OtherFiles,
    "visible_tests_are_there": OtherTests,
    "untouched_work_fails": TooKind,
    "verdicts_name_their_evaluator": NoJudge,
    "verdicts_repeat": Moody,
    "grading_leaves_no_trace": Messy,
}
"""Check -> a suite that fails it and no other."""
