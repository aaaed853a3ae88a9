"""The gate to a directory: files are reached by descriptors, one component at a time, never through a link.

A path is text only until it is split here; from then on every step is relative to an open directory, so a directory that
is swapped for a link meanwhile is refused by the system, not by a comparison of strings that was true a moment ago.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import changes
from .beneath import DIRECTORY, FILE, Root
from .changes import Put
from .names import MOST_PARTS, Parts, addressable, check_readable, check_writable, private, split
from .plans import MOST_BYTES
from .refusal import Refused

__all__ = [
    "MOST_BYTES",
    "MOST_FILES",
    "Gate",
    "Parts",
    "Put",
    "check_readable",
    "check_writable",
    "split",
]

MOST_FILES = 5000
MOST_FOLDERS = 20_000
LOCK_S = 5.0
_MORE = 65_536
"""Bytes that are asked for at a time beyond the size that a file had when it was opened."""


class Gate:
    """One open directory. A context manager; every method raises Refused.

    ``kernel`` chooses between ``openat2`` and one component at a time; None takes what works here.
    """

    def __init__(self, root: Path, *, kernel: bool | None = None) -> None:
        self._root = Root(root, kernel=kernel)
        self._locked = fcntl.LOCK_UN

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self._root.close()

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode of the directory."""
        info = os.fstat(self._root.fd)
        return info.st_dev, info.st_ino

    def lock(self, *, alone: bool) -> None:
        """Wait until nobody changes anything (``alone``: nor reads), and take back what a dead process left half done."""
        self._lock(fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if changes.unfinished(self._root):
            self._lock(fcntl.LOCK_EX)
            changes.recover(self._root)
            self._lock(fcntl.LOCK_EX if alone else fcntl.LOCK_SH)

    def unlock(self) -> None:
        """Let others change things."""
        self._lock(fcntl.LOCK_UN)

    def read(self, parts: Parts) -> bytes:
        """A regular file's content, at most ``MOST_BYTES``."""
        with self._file(parts) as (fd, size):
            if size > MOST_BYTES:
                raise Refused("E_SIZE", f"{parts[-1]} is larger than {MOST_BYTES:,} bytes")
            data = os.read(fd, size + 1)
            while len(data) < MOST_BYTES and (more := os.read(fd, _MORE)):
                data += more  # it has grown since it was opened
            return data[:MOST_BYTES]

    def read_at(self, parts: Parts, offset: int, length: int) -> tuple[bytes, int]:
        """``length`` bytes (at most ``MOST_BYTES``) from ``offset`` of a regular file of any size; and that size."""
        with self._file(parts) as (fd, size):
            return os.pread(fd, min(length, MOST_BYTES), min(offset, size)), size

    def present(self, parts: Parts) -> os.stat_result | None:
        """What is known of a regular file, None where there is none."""
        return changes.present(self._root, parts)

    def files(self) -> Iterator[str]:
        """Paths of readable regular files in order; stops at ``MOST_FILES``."""
        yield from self.listing()[0]

    def listing(self, below: Parts = (), after: Parts = ()) -> tuple[list[str], str]:
        """Paths of readable regular files in order, at most ``MOST_FILES``, and what to go on ``after``, or nothing."""
        walk = _Walk()
        with self._root.folder(below) as folder:
            walk.go(folder, below, after[len(below) :] if after[: len(below)] == below else ())
        return walk.paths, walk.stopped

    def usage(self) -> tuple[int, int]:
        """Bytes and files that the directory holds, history left out."""
        with self._root.folder(()) as folder:
            return _usage(folder, 0)

    def replace_all(self, contents: Mapping[Parts, bytes | None]) -> None:
        """Give files new contents (None removes one): all of them or none."""
        self.change({parts: None if data is None else Put(data) for parts, data in contents.items()})

    def change(self, puts: Mapping[Parts, Put | None]) -> None:
        """Change files, all of them or none; see ``changes.commit``."""
        if self._locked != fcntl.LOCK_EX:
            self.lock(alone=True)
        changes.commit(self._root, puts)

    @contextlib.contextmanager
    def _file(self, parts: Parts) -> Iterator[tuple[int, int]]:
        if not parts:
            raise Refused("E_TYPE", "the workspace itself is not a file")
        fd = self._root.open(parts, FILE)
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise Refused("E_TYPE", f"{parts[-1]} is not a regular file")
            yield fd, info.st_size
        finally:
            os.close(fd)

    def _lock(self, how: int) -> None:
        until = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(self._root.fd, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Refused("E_BUSY", "another call holds the workspace") from None
                time.sleep(0.002)
            except OSError:
                break  # a file system without locks: calls are not kept apart, each change is still whole
            else:
                break
        self._locked = how


class _Walk:
    """Collects paths in order until there are too many files or folders."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.stopped = ""
        self._folders = 0

    def go(self, folder: int, prefix: Parts, after: Parts) -> None:
        """Everything below an open folder that comes after a path relative to it."""
        self._folders += 1
        for name, is_folder in _entries(folder, after[0] if after else ""):
            rest = after[1:] if after and name == after[0] else ()
            here = (*prefix, name)
            if self._folders >= MOST_FOLDERS and is_folder:
                self.stopped = "/".join(here)
            elif is_folder and len(here) < MOST_PARTS:
                try:
                    deeper = os.open(name, DIRECTORY, dir_fd=folder)
                except OSError:
                    continue  # swapped or gone since it was listed
                try:
                    self.go(deeper, here, rest)
                finally:
                    os.close(deeper)
            elif not is_folder and (not after or name != after[0]):
                self.paths.append("/".join(here))
                if len(self.paths) >= MOST_FILES:
                    self.stopped = self.paths[-1]
            if self.stopped:
                return


def _entries(folder: int, first: str) -> list[tuple[str, bool]]:
    """Names of files and folders from ``first`` on, in order; never more than can be used, however many there are."""
    with os.scandir(folder) as entries:
        wanted = (
            (e.name, e.is_dir(follow_symlinks=False))
            for e in entries
            if e.name >= first
            and e.name != "__pycache__"
            and not private(e.name)
            and addressable(e.name)
            and (e.is_dir(follow_symlinks=False) or e.is_file(follow_symlinks=False))
        )
        return heapq.nsmallest(MOST_FOLDERS + MOST_FILES, wanted)


def _usage(folder: int, depth: int) -> tuple[int, int]:
    size = count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if private(entry.name):
                continue
            if entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    size += os.stat(entry.name, dir_fd=folder, follow_symlinks=False).st_size
                    count += 1
            elif entry.is_dir(follow_symlinks=False) and depth < MOST_PARTS:
                try:
                    deeper = os.open(entry.name, DIRECTORY, dir_fd=folder)
                except OSError:
                    continue
                try:
                    more = _usage(deeper, depth + 1)
                finally:
                    os.close(deeper)
                size, count = size + more[0], count + more[1]
    return size, count
