"""A suite of programs: reads a file, makes each program's task once, and judges with the checks that nobody saw."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from apex_framework.errors import SuiteError, UsageError, WorkspaceError
from apex_framework.interfaces import RunsTests, Task, Verdict, Workspace, WorkspaceProvider

from ..cache_folder import cache_folder
from ..mini import faults, operators_known, operators_other, text
from . import cache, making, telling
from . import program as programs
from .making import Draft, LeftOut
from .program import HIDDEN, PROGRAM, VISIBLE, Program

SPLITS = ("train", "dev", "test")
INJECTED = (
    "A program injected the faults, one into each task: people make others, and repairing is not writing, so the numbers "
    "are not those of the benchmark of the same name."
)
Progress = Callable[[int, int], None]
"""Told how many programs were looked at, and of how many."""

_DECIDING = (faults, operators_known, operators_other, text, making, programs, telling)


class ProgramSuite(ABC):
    """Base of suites whose tasks are single programs. ``data`` is the file or folder that they are read from.

    ``limit`` makes only the first tasks of a split (they are the same as with a larger limit); ``salt`` decides faults and
    which checks are hidden; ``progress`` and ``cache_dir`` take the place of lines on stderr and of the user's cache folder.
    """

    name: str
    wanted: str
    """What ``data`` must be, in words."""
    splits: tuple[str, ...] = SPLITS
    caveats: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        workspaces: Callable[[], WorkspaceProvider] | None = None,
        limit: int | None = None,
        data: str | Path | None = None,
        salt: str = "1",
        progress: Progress | None = None,
        cache_dir: str | Path | None = None,
    ) -> None:
        if limit is not None and limit < 1:
            raise UsageError(f"a limit of {limit} tasks", "ask for at least one")
        if not data:
            raise UsageError(f"{self.name} reads its tasks from files of yours", f"--data {self.wanted}")
        self.data = Path(data)
        self._workspaces, self._limit, self._salt, self._progress = workspaces, limit, salt, progress
        self._folder = Path(cache_dir) if cache_dir else None
        self._drafts: dict[str, dict[str, Draft]] = {}
        self.left_out: dict[str, tuple[LeftOut, ...]] = {}
        """By split: programs that made no task, and why."""

    @abstractmethod
    def read(self) -> Sequence[Program]:
        """Every program of the data. Raises UsageError with the place of what is wrong."""

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """Every program of the data, read once."""
        return tuple(self.read())

    @cached_property
    def digest(self) -> str:
        """Hash of every program and its checks, the salt, what makes tasks of them, and the exact Python."""
        parts = [f"{self.name} {making.VERSION} {self._salt}", f"{platform.python_implementation()} {sys.version_info}"]
        parts += [hashlib.sha256(Path(str(m.__file__)).read_bytes()).hexdigest() for m in _DECIDING]
        parts += [p.digest for p in self.programs]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def tasks(self, split: str) -> Sequence[Task]:
        """Raises UsageError for a split that it has not, or a wrong file; SuiteError when there is no task."""
        if split not in self.splits:
            raise self._no_split(split)
        return tuple(self._task(draft) for draft in self._made(split).values())

    def workspaces(self) -> WorkspaceProvider:
        """Where tasks are worked on: the provider ``local``."""
        if self._workspaces is None:
            raise SuiteError(f"{self.name} was made without a workspace provider", "pass workspaces=...")
        return self._workspaces()

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        """Success when all visible and all hidden checks pass, the visible ones in their own form."""
        evaluator = f"{self.name}/checks"
        if not isinstance(workspace, RunsTests):
            return Verdict(False, evaluator, infrastructure_error="the workspace cannot run tests")
        if task.suite != self.name or task.split not in self.splits or task.id not in self._made(task.split):
            raise UsageError(f"task {task.id!r} of {task.suite}/{task.split} is not of this {self.name}")
        draft = self._made(task.split)[task.id]
        ids = [*draft.visible_ids, *draft.hidden_ids]
        overlay = {VISIBLE: draft.visible, HIDDEN: draft.hidden}
        try:
            report = workspace.run_tests(ids, timeout_s=making.TIMEOUT_S, overlay=overlay)
        except (WorkspaceError, OSError) as error:
            return Verdict(False, evaluator, infrastructure_error=f"{type(error).__name__}: {error}")
        passed = {o.id for o in report.outcomes if o.status == "passed"}
        visible, hidden = (sum(i in passed for i in some) for some in (draft.visible_ids, draft.hidden_ids))
        detail = f"visible {visible}/{len(draft.visible_ids)}, hidden {hidden}/{len(draft.hidden_ids)}"
        if report.status != "finished":
            detail += f", run {report.status}"
        all_visible = visible == len(draft.visible_ids)
        return Verdict(all_visible and hidden == len(draft.hidden_ids), evaluator, all_visible, detail)

    def _no_split(self, split: str) -> UsageError:
        return UsageError(f"{self.name} has no split {split!r}", f"known: {', '.join(self.splits)}")

    def _made(self, split: str) -> dict[str, Draft]:
        if split not in self._drafts:
            drafts, left_out = self._stored(split) or self._make(split)
            self._drafts[split] = {d.id: d for d in drafts[: self._limit]}
            self.left_out[split] = tuple(left_out)
        return self._drafts[split]

    def _file(self, split: str, limit: int | None) -> Path:
        return (
            self._folder or cache_folder("suites")
        ) / f"{self.name}-{self.digest[:16]}-{split}-{limit or 'all'}.jsonl.gz"

    def _stored(self, split: str) -> tuple[list[Draft], list[LeftOut]] | None:
        whole = cache.load(self._file(split, None))
        return whole or (cache.load(self._file(split, self._limit)) if self._limit else None)

    def _make(self, split: str) -> tuple[list[Draft], list[LeftOut]]:
        chosen = [p for p in self.programs if p.split == split]
        if not chosen:
            have = ", ".join(one for one in self.splits if any(p.split == one for p in self.programs))
            raise UsageError(f"{self.data}: no task of the split {split!r}", f"its splits: {have or 'none'}")
        drafts: list[Draft] = []
        left_out: list[LeftOut] = []
        say = self._progress or Talk(f"{self.name}/{split}")
        provider = self.workspaces()
        try:
            for number, program in enumerate(chosen, 1):
                made = making.make(program, provider, f"{self.name}-{self._salt}")
                (drafts if isinstance(made, Draft) else left_out).append(made)  # type: ignore[arg-type]  # each to its own
                say(number, len(chosen))
                if self._limit and len(drafts) >= self._limit:
                    break
        finally:
            provider.close()
        reasons = "; ".join(f"{o.id}: {o.reason}" for o in left_out[:3]) + ("; ..." if len(left_out) > 3 else "")
        told = f"{self.name}/{split}: {len(left_out)} of {len(chosen)} programs make no task" + (
            reasons and f" ({reasons})"
        )
        if not drafts:
            raise SuiteError(told, f"is {self.data} the right data?")
        if left_out:
            print(told, file=sys.stderr)
        try:
            cache.store(self._file(split, self._limit), drafts, left_out)
        except OSError as error:
            print(f"{self.name}/{split}: not cached: {error}", file=sys.stderr)
        return drafts, left_out

    def _task(self, draft: Draft) -> Task:
        files = {PROGRAM: draft.faulty, **dict(draft.extra), VISIBLE: draft.visible}
        return Task(
            id=draft.id,
            suite=self.name,
            split=draft.split,
            issue=draft.issue,
            cluster=draft.id,
            family=draft.family,
            files=dict(sorted(files.items())),
            visible_tests=draft.visible_ids,
            run=making.run_of(),
            meta=draft.meta,
        )


class Talk:
    """Progress on stderr: a line that grows on a terminal, the last one elsewhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._live = sys.stderr.isatty()

    def __call__(self, done: int, of: int) -> None:
        if self._live or done == of:
            start, end = ("\r", "\n" if done == of else "") if self._live else ("", "\n")
            print(f"{start}{self._name}: {done} of {of} programs tried", end=end, file=sys.stderr, flush=True)
