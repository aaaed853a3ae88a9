"""The suite ``mini``: faults in modules of the user's own standard library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from apex_framework.errors import SuiteError, UsageError, WorkspaceError
from apex_framework.interfaces import RunsTests, Task, Verdict, Workspace, WorkspaceProvider

from . import cache
from .cases import HIDDEN, VISIBLE
from .generation import Draft, Generator
from .plan import SIZES
from .sources import SPLITS, hash_texts
from .text import Replacement, apply_edits

SALTS = {"train": "mini-train-1", "dev": "mini-dev-1", "test": "mini-test-1"}
"""Public constants from which all tasks follow."""

Progress = Callable[[int, int], None]
"""Told how many tasks are made and how many are wanted."""

TIMEOUT_S = 60.0


class MiniSuite:
    """Generated tasks. ``limit`` makes only the first tasks of a split (they are the same as with a larger limit);
    ``workspaces`` gives the provider on whose workspaces tasks are worked on; ``progress`` takes the place of lines
    on stderr; ``cache_dir`` takes the place of the user's cache folder."""

    def __init__(
        self,
        *,
        workspaces: Callable[[], WorkspaceProvider] | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
        cache_dir: str | Path | None = None,
    ) -> None:
        if limit is not None and limit < 1:
            raise UsageError(f"a limit of {limit} tasks", "ask for at least one")
        self._workspaces = workspaces
        self._limit = limit
        self._progress = progress
        self._folder = Path(cache_dir) if cache_dir else None
        self._drafts: dict[str, dict[str, Draft]] = {}
        self._tasks: dict[str, tuple[Task, ...]] = {}
        self.missing: dict[str, tuple[str, ...]] = {}
        """Sources that could not be used when a split was generated here, by split."""

    @property
    def name(self) -> str:
        return "mini"

    @property
    def digest(self) -> str:
        return hash_texts([Generator(split, SALTS[split]).digest() for split in SPLITS])

    def tasks(self, split: str) -> Sequence[Task]:
        """Raises UsageError for another split, SuiteError when this Python cannot make them."""
        if split not in SIZES:
            raise UsageError(f"mini has no split {split!r}", f"one of: {', '.join(SPLITS)}")
        if split not in self._tasks:
            sources, drafts = self._stored(split)
            self._drafts[split] = {d.id: d for d in drafts}
            self._tasks[split] = tuple(make_task(split, d, sources[d.source]) for d in drafts)
        return self._tasks[split]

    def workspaces(self) -> WorkspaceProvider:
        if self._workspaces is None:
            raise SuiteError("mini was made without a workspace provider", "pass workspaces=...")
        return self._workspaces()

    def grade(self, task: Task, workspace: Workspace) -> Verdict:
        evaluator = "mini/differential"
        if not isinstance(workspace, RunsTests):
            return Verdict(False, evaluator, infrastructure_error="the workspace cannot run tests")
        draft = self._draft(task)
        overlay = {VISIBLE: draft.visible, HIDDEN: draft.hidden}
        ids = [*draft.visible_ids, *draft.hidden_ids]
        try:
            report = workspace.run_tests(ids, timeout_s=TIMEOUT_S, overlay=overlay)
        except (WorkspaceError, OSError) as error:
            return Verdict(False, evaluator, infrastructure_error=f"{type(error).__name__}: {error}")
        passed = {o.id for o in report.outcomes if o.status == "passed"}
        visible = sum(i in passed for i in draft.visible_ids)
        hidden = sum(i in passed for i in draft.hidden_ids)
        detail = f"visible {visible}/{len(draft.visible_ids)}, hidden {hidden}/{len(draft.hidden_ids)}"
        if report.status != "finished":
            detail += f", run {report.status}"
        all_visible, all_hidden = visible == len(draft.visible_ids), hidden == len(draft.hidden_ids)
        return Verdict(all_visible and all_hidden, evaluator, all_visible, detail)

    def _draft(self, task: Task) -> Draft:
        if task.suite != self.name:
            raise UsageError(f"task {task.id} belongs to {task.suite}", "grade it with its own suite")
        self.tasks(task.split)
        try:
            return self._drafts[task.split][task.id]
        except KeyError:
            raise UsageError(
                f"mini/{task.split} has no task {task.id!r} here", "was it made by another Python?"
            ) from None

    def _stored(self, split: str) -> cache.Stored:
        generator = Generator(split, SALTS[split])
        digest, count = generator.digest(), min(self._limit or SIZES[split], SIZES[split])
        folder = self._folder or cache.cache_folder()
        stored = cache.load(folder, split, digest, count)
        if stored is not None:
            return stored
        drafts = list(generator.drafts(count, self._progress or Talk(split)))
        self.missing[split] = tuple(generator.missing)
        if generator.missing:
            names = ", ".join(generator.missing)
            print(f"mini/{split}: this Python cannot serve {names}; the digest says so", file=sys.stderr)
        sources = cache.sources_of(generator.repositories, drafts)
        try:
            cache.store(folder, split, digest, sources, drafts)
        except OSError as error:
            print(f"mini/{split}: not cached: {error}", file=sys.stderr)
        return sources, drafts


class Talk:
    """Progress on stderr: a line that grows on a terminal, first and last elsewhere."""

    def __init__(self, split: str) -> None:
        self._split = split
        self._live = sys.stderr.isatty()

    def __call__(self, done: int, wanted: int) -> None:
        if self._live or done in (1, wanted):
            start, end = ("\r", "\n" if done == wanted else "") if self._live else ("", "\n")
            print(f"{start}mini/{self._split}: {done} of {wanted} tasks made", end=end, file=sys.stderr, flush=True)


def make_task(split: str, draft: Draft, source: Mapping[str, Any]) -> Task:
    """The task that agents see. Hidden tests stay behind."""
    files: dict[str, str] = dict(source["files"])
    for path in {e[0] for e in draft.edits}:
        edits = (Replacement(a, b, text) for p, a, b, text in draft.edits if p == path)
        files[path] = apply_edits(files[path].encode(), edits)
    files[VISIBLE] = draft.visible
    files["README.md"] = readme(draft.source, files)
    return Task(
        id=draft.id,
        suite="mini",
        split=split,
        issue=draft.issue,
        cluster=draft.source,
        family=draft.family,
        files=dict(sorted(files.items())),
        visible_tests=draft.visible_ids,
        run={
            "runner": "unittest",
            "tests": [VISIBLE],
            "block": list(source["block"]),
            "step_budget": draft.step_budget,
        },
        meta=draft.meta,
    )


def readme(source: str, files: Mapping[str, str]) -> str:
    """The repository's own words."""
    modules = "\n".join(f"* `{p}`" for p in sorted(files) if p.endswith(".py") and files[p].strip())
    return f"# {source}\n\nA small library.\n\n{modules}\n\nRun the tests from this folder: `python -m unittest tests.test_visible`\n"
