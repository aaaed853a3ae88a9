"""The state of a folder with modes and links: read again cheaply, written, restored, removed; by descriptors only."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apex_framework.errors import WorkspaceError

from .removing import FOLDER, MOST_DEPTH, empty, opened
from .tree import MOST_BYTES

FILE, PROGRAM, LINK = 0o100644, 0o100755, 0o120000
MOST_FILES: Final = 200_000
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_RACY_NS: Final = 20_000_000
"""A file changed so shortly before it was looked at may change again without its times showing it."""
_FINE_TIMES: Final = sys.platform == "linux" and tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2]) >= (
    6,
    13,
)
"""Linux gives a file that was looked at a new time for its next change, however soon, since 6.13."""

Item = tuple[int, bytes]
"""Mode (``FILE``, ``PROGRAM``, ``LINK``) and content; a link's content is where it points."""
State = Mapping[str, Item]
"""Items by path relative to the folder. Folders are not part of it: one is there when something is in it."""
_Facts = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Seen:
    facts: _Facts
    item: Item


class Folder:
    """A folder that is read again and again: only what changed since is opened.

    What changes are noticed by are inode, size, mode and both times; who can set the machine's clock can hide one.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._seen: dict[str, _Seen] = {}

    def read(self) -> dict[str, Item]:
        """The present state. Raises WorkspaceError on a huge file, too many files or folders too deep."""
        seen: dict[str, _Seen] = {}
        fd = os.open(self.root, FOLDER)
        try:
            self._look(fd, "", 0, seen, None)
        finally:
            os.close(fd)
        self._seen = seen
        return {path: one.item for path, one in seen.items()}

    def write(self, state: State) -> None:
        """Fill the folder, which exists and is empty."""
        fd = os.open(self.root, FOLDER)
        try:
            _Writer(fd, self._seen).write(state)
        finally:
            os.close(fd)

    def restore(self, wanted: State) -> None:
        """Make the folder hold ``wanted`` and nothing else; what is so already is not touched."""
        seen: dict[str, _Seen] = {}
        fd = os.open(self.root, FOLDER)
        try:
            try:
                self._look(fd, "", 0, seen, wanted)
            except WorkspaceError:  # too many, too deep: quicker made anew than searched
                seen.clear()
                empty(fd)
            self._seen = seen
            _Writer(fd, seen).write({path: item for path, item in wanted.items() if path not in seen})
        finally:
            os.close(fd)

    def _look(self, folder: int, prefix: str, depth: int, seen: dict[str, _Seen], wanted: State | None) -> int:
        """Collect what is there, and remove on the way what is not ``wanted``; how many entries stay."""
        if depth > MOST_DEPTH:
            raise WorkspaceError(f"folders are nested deeper than {MOST_DEPTH}", "remove them from the workspace")
        old, now, stay = self._seen, time.time_ns(), 0
        with os.scandir(folder) as entries:
            found = list(entries)
        for entry in found:
            name = entry.name
            path = prefix + name
            if entry.is_dir(follow_symlinks=False):
                stay += self._enter(folder, name, path, depth, seen, wanted)
                continue
            info = entry.stat(follow_symlinks=False)
            facts = (info.st_ino, info.st_size, info.st_mode, info.st_mtime_ns, info.st_ctime_ns)
            known = old.get(path)
            if known is None or known.facts != facts:
                known = (
                    None
                    if wanted is not None and info.st_size > MOST_BYTES
                    else _taken(folder, name, path, info, facts, now)
                )
            if wanted is None:
                if known is not None:
                    seen[path] = known
            elif known is None or (was := wanted.get(path)) is None or (was is not known.item and was != known.item):
                os.unlink(name, dir_fd=folder)
                continue
            else:
                seen[path] = known
            stay += 1
            if len(seen) > MOST_FILES:
                raise WorkspaceError(f"more than {MOST_FILES:,} files", "remove them from the workspace")
        return stay

    def _enter(
        self, folder: int, name: str, path: str, depth: int, seen: dict[str, _Seen], wanted: State | None
    ) -> int:
        deeper = opened(folder, name)
        try:
            stay = self._look(deeper, f"{path}/", depth + 1, seen, wanted)
        finally:
            os.close(deeper)
        if wanted is not None and not stay:
            os.rmdir(name, dir_fd=folder)
            return 0
        return 1


def _taken(folder: int, name: str, path: str, info: os.stat_result, facts: _Facts, now: int) -> _Seen | None:
    if stat.S_ISLNK(info.st_mode):
        item = LINK, os.fsencode(os.readlink(name, dir_fd=folder))
    elif not stat.S_ISREG(info.st_mode):
        return None  # pipes, sockets and devices are not part of a state
    elif info.st_size > MOST_BYTES:
        raise WorkspaceError(f"{path} is larger than {MOST_BYTES:,} bytes", "remove it from the workspace")
    else:
        item = PROGRAM if info.st_mode & 0o100 else FILE, _content(folder, name)
    return _Seen(facts if _FINE_TIMES else _unless_racy(facts, now), item)


def _unless_racy(facts: _Facts, now: int) -> _Facts:
    """Facts that a later look can trust; else none, so that the next look opens the file."""
    return facts if facts[4] < now - _RACY_NS else (0, 0, 0, 0, 0)


def _content(folder: int, name: str) -> bytes:
    try:
        fd = os.open(name, _READ, dir_fd=folder)
    except PermissionError:
        os.chmod(name, 0o600, dir_fd=folder)
        fd = os.open(name, _READ, dir_fd=folder)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return b""
        data = os.read(fd, info.st_size + 1)
        while len(data) < MOST_BYTES and (more := os.read(fd, 1 << 20)):
            data += more
        return data
    finally:
        os.close(fd)


class _Writer:
    """Writes a state below a folder, keeping folders open as long as paths stay in them."""

    def __init__(self, root: int, seen: dict[str, _Seen]) -> None:
        self._root, self._seen = root, seen

    def write(self, state: State) -> None:
        """What is there by these names already must be gone."""
        at, fd = "", self._root
        try:
            for path in sorted(state, key=_by_folder) if len(state) > 1 else state:
                folder, _, name = path.rpartition("/")
                if folder != at:
                    if fd != self._root:
                        os.close(fd)
                    fd, at = self._root, ""
                    fd, at = self._folder(folder), folder
                mode, data = state[path]
                self._seen[path] = _Seen(_put(fd, name, mode, data), state[path])
        finally:
            if fd != self._root:
                os.close(fd)
        if not _FINE_TIMES:
            now = time.time_ns()
            for path in state:
                one = self._seen[path]
                self._seen[path] = _Seen(_unless_racy(one.facts, now), one.item)

    def _folder(self, path: str) -> int:
        """Its descriptor; made with its parents if it is not there."""
        with contextlib.suppress(FileNotFoundError):
            return _descend(self._root, path, make=False)
        return _descend(self._root, path, make=True)


def _descend(root: int, path: str, *, make: bool) -> int:
    if path == "":
        return os.dup(root)
    fd = root
    for part in path.split("/"):
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=fd)
        try:
            deeper = os.open(part, FOLDER, dir_fd=fd)
        finally:
            if fd != root:
                os.close(fd)
        fd = deeper
    return fd


def _by_folder(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def _put(folder: int, name: str, mode: int, data: bytes) -> _Facts:
    if mode == LINK:
        os.symlink(data, os.fsencode(name), dir_fd=folder)
        return (0, 0, 0, 0, 0)
    fd = os.open(name, _NEW, 0o755 if mode == PROGRAM else 0o644, dir_fd=folder)
    try:
        if data:
            left = data
            while (done := os.write(fd, left)) < len(left):
                left = left[done:]
        info = os.fstat(fd)
    finally:
        os.close(fd)
    return (info.st_ino, info.st_size, info.st_mode, info.st_mtime_ns, info.st_ctime_ns)


def digest(found: State) -> str:
    """A name for the content, 64 hexadecimal digits."""
    h = hashlib.sha256()
    for path in sorted(found):
        mode, data = found[path]
        h.update(f"{path}\0{mode}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
        h.update(data)
    return h.hexdigest()
