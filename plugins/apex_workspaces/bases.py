"""What tasks start from: the files of a commit, and a repository of ours with that commit and nothing before or after it."""

from __future__ import annotations

import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apex_framework.errors import GitError, WorkspaceError
from apex_framework.git import CheckedOut, Repository
from apex_framework.interfaces import Task

from . import removing, state, tree
from .recipe import Recipe

_KEPT: Final = 8
"""Bases of tasks that are kept."""


@dataclass(frozen=True, slots=True)
class _Base:
    state: state.State
    place: Path
    """Holds ``git``."""


class Bases:
    """Those that were asked for last. ``folder`` makes fresh folders."""

    def __init__(self, folder: Callable[[], Path], *, network: bool) -> None:
        self._folder, self._network = folder, network
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...], _Base] = OrderedDict()

    def state_of(self, task: Task, recipe: Recipe) -> state.State:
        """The files of ``task.repo`` at ``task.base_commit``, and ``task.files`` on top. Raises WorkspaceError."""
        files = {tree.safe_path(path): (state.FILE, text.encode()) for path, text in task.files.items()}
        if not task.repo:
            return files
        with self._lock:
            base = self._base(task, recipe).state
        return {**base, **files} if files else base

    def repository_of(self, task: Task, recipe: Recipe, base: state.State, place: Path) -> tuple[Repository, str]:
        """A repository of its own in ``place``, and its base: the task's commit, or one that follows with what ``base`` has else.

        Raises WorkspaceError.
        """
        parents: tuple[str, ...] = ()
        when = 0
        if task.repo:
            with self._lock:
                shutil.copytree(self._base(task, recipe).place / "git", place / "git")
            made = Repository(place / "git")
            (head,) = made.log("HEAD", count=1)
            parents, when = (head.oid,), head.when + 1
        else:
            made = Repository.init(place / "git")
        files = place / "files"
        files.mkdir()
        try:
            state.Folder(files).write(base)
            commit = made.snapshot(files, "the task's files", parents, when=when)
        finally:
            removing.remove(files)
        if parents and not made.changed(parents[0], commit):
            return made, parents[0]
        made.set_branch("main", commit)
        return made, commit

    def _base(self, task: Task, recipe: Recipe) -> _Base:
        key = (task.repo, task.base_commit, *recipe.allow)
        base = self._kept.get(key)
        if base is None:
            place = self._folder()
            base = self._kept[key] = _Base(_fetched(task, recipe, place, network=self._network), place)
            while len(self._kept) > _KEPT:
                removing.remove(self._kept.popitem(last=False)[1].place)
        self._kept.move_to_end(key)
        return base


def difference(base: state.State, present: state.State, place: Path) -> str:
    """What changed, in git's form, modes, links and binary files included; works below ``place``, and removes it."""
    names = [p for p in sorted({*base, *present}) if base.get(p) != present.get(p)]
    try:
        if not names:
            return ""
        made = Repository.init(place / "git")
        commits = []
        for number, side in enumerate((base, present)):
            folder = place / str(number)
            folder.mkdir()
            state.Folder(folder).write({p: side[p] for p in names if p in side})
            commits.append(made.snapshot(folder, "state"))
        return made.diff(*commits)
    finally:
        removing.remove(place)


def _fetched(task: Task, recipe: Recipe, place: Path, *, network: bool) -> state.State:
    """The files of the task's commit; its repository is in ``place`` then, and nothing after a failure."""
    out = place / "files"
    try:
        out.mkdir()
        made = Repository.clone(task.repo, place / "git", task.base_commit or "HEAD", depth=1, network=network)
        _check(task, recipe, made.check_out("HEAD", out))
        found = state.Folder(out).read()
        removing.remove(out)
    except BaseException as error:
        removing.remove(place)
        if isinstance(error, GitError):
            raise GitError(error.refusal, f"task {task.id}: {error.cause}", error.remedy) from error
        raise
    return found


def _check(task: Task, recipe: Recipe, made: CheckedOut) -> None:
    for name, paths, what in (
        ("submodules", made.submodules, "submodules, which are not fetched"),
        ("lfs", made.lfs_pointers, "stand-ins of large files (Git LFS), which are not fetched"),
        ("outside_links", made.outside_links, "links that point out of it"),
    ):
        if paths and name not in recipe.allow:
            some = ", ".join(paths[:3]) + (", …" if len(paths) > 3 else "")
            remedy = f"go on without them: the task's run needs allow = [{name!r}]"
            raise WorkspaceError(f"task {task.id}: its repository has {what}: {some}", remedy)
