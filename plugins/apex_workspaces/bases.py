"""The files that a task starts from, out of its repository, which is cloned without what came after."""

from __future__ import annotations

from pathlib import Path

from apex_framework.errors import GitError, WorkspaceError
from apex_framework.git import CheckedOut, Repository
from apex_framework.interfaces import Task

from . import removing, state
from .recipe import Recipe


def fetched(task: Task, recipe: Recipe, place: Path, *, network: bool) -> state.State:
    """The files of ``task.repo`` at ``task.base_commit``; works below ``place``, and removes it. Raises WorkspaceError."""
    out = place / "files"
    out.mkdir()
    try:
        made = Repository.clone(task.repo, place / "git", task.base_commit or "HEAD", depth=1, network=network)
        _check(task, recipe, made.check_out("HEAD", out))
        return state.Folder(out).read()
    except GitError as error:
        raise GitError(error.refusal, f"task {task.id}: {error.cause}", error.remedy) from error
    finally:
        removing.remove(place)


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
