"""Trees that two commits, or a commit and a patch, give; nothing but objects is written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..errors import GitError
from . import trees
from .runner import run_git


def merged_tree(git_dir: Path, ours: str, theirs: str) -> str:
    """The tree of a three-way merge. Raises GitError (``E_CONFLICT``)."""
    command = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs]
    try:
        parts = run_git(git_dir, command, ok=(0, 1)).split(b"\0")
    except GitError as error:
        if "unrelated histories" in error.cause:
            raise GitError("E_CONFLICT", "the two have no commit in common") from None
        if error.cause.startswith("usage"):
            raise GitError("E_GIT", "this git merges only in a work tree", "install git 2.38 or later") from None
        raise
    if names := sorted({os.fsdecode(name) for name in parts[1:] if name}):
        first = ", ".join(trees.shown(name) for name in names[:5])
        raise GitError("E_CONFLICT", f"both changed {first}", "merge these files by hand")
    return parts[0].decode("ascii")


def patched_tree(git_dir: Path, commit: str, patch: str) -> str:
    """The tree of a commit with a unified diff applied. Raises GitError (``E_PATCH``)."""
    data = patch.encode("utf-8", "surrogateescape")
    with tempfile.TemporaryDirectory(prefix="apex-git-") as folder:
        index = Path(folder) / "index"
        run_git(git_dir, ["read-tree", commit], index=index)
        try:
            run_git(git_dir, ["apply", "--cached", "--whitespace=nowarn", "-"], stdin=data, index=index)
        except GitError as error:
            if error.refusal != "E_GIT":
                raise
            raise GitError("E_PATCH", error.cause) from None
        return run_git(git_dir, ["write-tree"], index=index).decode("ascii").strip()
