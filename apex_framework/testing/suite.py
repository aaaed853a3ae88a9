"""Conformance kit of task suites. Makes the tasks of one split and judges a few workspaces nobody worked in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ..errors import ApexError
from ..interfaces import RunsTests, Task, TaskSuite, Verdict, Workspace
from .conformance import run_checks

KIND: Final = "suite"

Make = Callable[[], TaskSuite]


def check_suite(make: Make, *, split: str = "dev", sample: int = 2) -> None:
    """Run every check on fresh suites; those on verdicts on the first ``sample`` tasks. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "name_is_stable": lambda: check_name_is_stable(make),
            "digest_repeats": lambda: check_digest_repeats(make),
            "caveats_are_sentences": lambda: check_caveats_are_sentences(make),
            "tasks_repeat": lambda: check_tasks_repeat(make, split),
            "ids_are_unique": lambda: check_ids_are_unique(make, split),
            "tasks_say_where_they_belong": lambda: check_tasks_say_where_they_belong(make, split),
            "tasks_are_complete": lambda: check_tasks_are_complete(make, split),
            "unknown_split_is_refused": lambda: check_unknown_split_is_refused(make),
            "workspaces_hold_the_files": lambda: check_workspaces_hold_the_files(make, split, sample),
            "visible_tests_are_there": lambda: check_visible_tests_are_there(make, split, sample),
            "untouched_work_fails": lambda: check_untouched_work_fails(make, split, sample),
            "verdicts_name_their_evaluator": lambda: check_verdicts_name_their_evaluator(make, split, sample),
            "verdicts_repeat": lambda: check_verdicts_repeat(make, split, sample),
            "grading_leaves_no_trace": lambda: check_grading_leaves_no_trace(make, split, sample),
        },
    )


def check_name_is_stable(make: Make) -> None:
    """Two suites have one name, and it is not empty."""
    one, two = make().name, make().name
    assert one and one == two, f"names are {one!r} and {two!r}"


def check_digest_repeats(make: Make) -> None:
    """Two suites have one digest, and it is not empty."""
    one, two = make().digest, make().digest
    assert one and one == two, f"digests are {one!r} and {two!r}"


def check_caveats_are_sentences(make: Make) -> None:
    """What a suite says that results on its tasks do not show is a tuple of lines."""
    caveats = getattr(make(), "caveats", ())
    assert isinstance(caveats, tuple), f"caveats are {type(caveats).__name__}, not a tuple"
    assert all(isinstance(one, str) and one.strip() and "\n" not in one for one in caveats), f"no sentences: {caveats}"


def check_tasks_repeat(make: Make, split: str) -> None:
    """Two suites give the same tasks in the same order, and so does one suite asked twice."""
    suite = make()
    first, again, other = (tuple(s.tasks(split)) for s in (suite, suite, make()))
    assert first, f"no tasks in {split}"
    assert first == again, "asked twice, one suite gives other tasks"
    assert first == other, "two suites give other tasks"


def check_ids_are_unique(make: Make, split: str) -> None:
    """No id occurs twice, and each can be part of a path."""
    ids = [t.id for t in make().tasks(split)]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    assert not twice, f"ids occur twice: {', '.join(twice[:5])}"
    odd = [i for i in ids if not i or i in (".", "..") or set(i) & set("/\\\0\n")]
    assert not odd, f"ids that cannot be folders: {odd[:5]}"


def check_tasks_say_where_they_belong(make: Make, split: str) -> None:
    """Each task names its suite and its split."""
    suite = make()
    for task in suite.tasks(split):
        assert (task.suite, task.split) == (suite.name, split), f"{task.id} says {task.suite}/{task.split}"


def check_tasks_are_complete(make: Make, split: str) -> None:
    """Each task has an issue, a cluster, and files or a repository."""
    for task in make().tasks(split):
        assert task.issue.strip(), f"{task.id} has no issue"
        assert task.cluster, f"{task.id} has no cluster"
        assert task.files or task.repo, f"{task.id} has neither files nor a repository"


def check_unknown_split_is_refused(make: Make) -> None:
    """An unknown split raises one of our errors."""
    try:
        make().tasks("no-such-split")
    except ApexError:
        return
    raise AssertionError("an unknown split was accepted")


def check_workspaces_hold_the_files(make: Make, split: str, sample: int) -> None:
    """A workspace of a task has the task's files, as they are."""
    for task, workspace, _ in _worked_on(make, split, sample):
        for path, text in task.files.items():
            file = workspace.root / path
            assert file.is_file() and file.read_text(encoding="utf-8") == text, f"{task.id}: {path} differs"


def check_visible_tests_are_there(make: Make, split: str, sample: int) -> None:
    """Where workspaces run tests, they discover exactly the visible ones."""
    for task, workspace, _ in _worked_on(make, split, sample):
        if isinstance(workspace, RunsTests) and task.visible_tests:
            found = set(workspace.discover())
            assert found == set(task.visible_tests), f"{task.id}: discovered {sorted(found)}"


def check_untouched_work_fails(make: Make, split: str, sample: int) -> None:
    """A workspace in which nothing was done is a failure, not a success and not an infrastructure error."""
    for task, workspace, suite in _worked_on(make, split, sample):
        verdict = suite.grade(task, workspace)
        assert not verdict.infrastructure_error, f"{task.id}: {verdict.infrastructure_error}"
        assert not verdict.success, f"{task.id} counts as solved before anybody worked on it"


def check_verdicts_name_their_evaluator(make: Make, split: str, sample: int) -> None:
    """Each verdict says who judged."""
    for task, workspace, suite in _worked_on(make, split, sample):
        assert suite.grade(task, workspace).evaluator, f"the verdict on {task.id} names no evaluator"


def check_verdicts_repeat(make: Make, split: str, sample: int) -> None:
    """The same state gets the same verdict."""
    for task, workspace, suite in _worked_on(make, split, sample):
        verdicts: list[Verdict] = [suite.grade(task, workspace) for _ in range(2)]
        assert verdicts[0] == verdicts[1], f"{task.id}: {verdicts[0]} and then {verdicts[1]}"


def check_grading_leaves_no_trace(make: Make, split: str, sample: int) -> None:
    """Grading changes no file and leaves none: what agents never saw stays unseen."""
    for task, workspace, suite in _worked_on(make, split, sample):
        before = _files(workspace.root)
        suite.grade(task, workspace)
        changed = sorted(set(before.items()) ^ set(_files(workspace.root).items()))
        assert not changed, f"{task.id}: grading touched {changed[0][0]}"


def _worked_on(make: Make, split: str, sample: int) -> Iterator[tuple[Task, Workspace, TaskSuite]]:
    """The first tasks, each in a fresh workspace."""
    suite = make()
    with _provider(suite) as create:
        for task in suite.tasks(split)[:sample]:
            yield task, create(task), suite


@contextmanager
def _provider(suite: TaskSuite) -> Iterator[Callable[[Task], Workspace]]:
    provider = suite.workspaces()
    try:
        yield provider.create
    finally:
        provider.close()


def _files(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
