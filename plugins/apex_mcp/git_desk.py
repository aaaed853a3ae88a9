"""Which repository belongs to a workspace, and one call at a time on each."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apex_framework.git import Repository
from apex_framework.interfaces import HasGit, Workspace

from .files import Files
from .quota import Quota
from .refusal import Refused

IGNORED = frozenset(("__pycache__", ".apex", ".pytest_cache", ".hypothesis"))
"""Names that are never part of a commit: what running leaves behind, and the framework's own."""


class Desk:
    """A workspace and its repository, which may grow by ``most`` bytes."""

    def __init__(self, workspace: Workspace, git: Repository, base: str, most: int) -> None:
        self._workspace = weakref.ref(workspace)
        self.git, self.base = git, base
        self.lock = threading.RLock()
        self._most, self._start = most, _held(git.git_dir)

    @property
    def root(self) -> Path:
        """The workspace's folder."""
        return self._alive().root

    def files(self, *, alone: bool, quota: Quota | None = None) -> Files:
        """The workspace's files for one call. Raises Refused."""
        return Files(self._alive(), alone=alone, quota=quota)

    def present(self, message: str = "present files") -> str:
        """A commit of the files as they are now, after HEAD and on no branch; HEAD itself where nothing differs.

        Also what is on no branch takes room. Raises Refused.
        """
        self.check_room()
        head = self.git.log("HEAD", count=1)[0]
        made = self.git.snapshot(self.root, message, (head.oid,), when=head.when + 1, ignore=IGNORED)
        return made if self.git.changed(head.oid, made) else head.oid

    def check_room(self) -> None:
        """Refuse when the repository has grown by more than it may: by one commit, at most, beyond that."""
        if _held(self.git.git_dir) - self._start > self._most:
            raise Refused("E_QUOTA", f"the repository may not grow by more than {self._most:,} bytes")

    def _alive(self) -> Workspace:
        workspace = self._workspace()
        if workspace is None:
            raise Refused("E_REPO", "the workspace is gone")
        return workspace


class Desks:
    """Desks by workspace; those whose repository was made here vanish with it, or at ``close``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._found: weakref.WeakKeyDictionary[Any, Desk] = weakref.WeakKeyDictionary()
        self._made: list[weakref.finalize[Any, Any]] = []
        self._closed = False

    @contextlib.contextmanager
    def desk(self, workspace: Workspace) -> Iterator[Desk]:
        """The desk of a workspace, for one call. Raises Refused, GitError."""
        with self._lock:
            if self._closed:
                raise Refused("E_TOOL", "the server is closed")
            try:
                desk = self._found.get(workspace)
            except TypeError:
                raise Refused("E_REPO", "this workspace has no repository and can be given none") from None
            if desk is None:
                desk = self._found[workspace] = self._new(workspace)
        with desk.lock:
            yield desk

    def close(self) -> None:
        """Remove what was made; idempotent."""
        with self._lock:
            self._closed = True
            for made in self._made:
                made()
            self._made.clear()

    def _new(self, workspace: Workspace) -> Desk:
        if isinstance(workspace, HasGit):
            return Desk(workspace, Repository(workspace.git_dir), workspace.base_commit, self._most)
        folder = Path(tempfile.mkdtemp(prefix="apex-git-"))
        try:
            git = Repository.init(folder / "git")
            with Files(workspace):
                base = git.snapshot(workspace.root, "base", ignore=IGNORED)
            git.set_branch("main", base)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._made = [made for made in self._made if made.alive]
        self._made.append(weakref.finalize(workspace, shutil.rmtree, folder, ignore_errors=True))
        return Desk(workspace, git, base, self._most)


def _held(folder: Path) -> int:
    """Bytes that a repository's files take on the disk."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # a lock or a temporary file of git's that is gone again
                info = os.lstat(os.path.join(place, name))
                total += max(info.st_size, getattr(info, "st_blocks", 0) * 512)
    return total
