"""Folders of others, read and written by descriptors: no step goes through a link, whoever swaps what meanwhile."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..errors import GitError
from . import trees

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def opened(root: Path) -> Iterator[int]:
    """A descriptor of a folder. Raises GitError (``E_PATH``)."""
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise GitError("E_PATH", f"{root}: {error.strerror}") from None
    try:
        yield fd
    finally:
        os.close(fd)


def read_folder(root: Path, ignore: frozenset[str] = frozenset()) -> Iterator[tuple[str, str, bytes]]:
    """(path, mode, content) of every file and link below a folder, in order, but for names of git's own or to be ignored.

    Raises GitError: ``E_LIMIT`` for too many, too large or too deep files, ``E_PATH`` for what cannot be read.
    """
    number = total = 0
    with opened(root) as fd:
        try:
            for found in _walk(fd, "", ignore):
                number += 1
                total += len(found[2])
                if number > trees.MOST_FILES or total > trees.MOST_TREE:
                    raise GitError("E_LIMIT", f"more than {trees.MOST_FILES:,} files or {trees.MOST_TREE:,} bytes")
                yield found
        except OSError as error:
            raise GitError("E_PATH", f"the folder cannot be read: {error.strerror}") from None


def _walk(folder: int, prefix: str, ignore: frozenset[str]) -> Iterator[tuple[str, str, bytes]]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        if name in ignore or trees.is_gits_own(name):
            continue
        path = prefix + name
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                yield path, trees.LINK, os.fsencode(os.readlink(name, dir_fd=folder))
            elif stat.S_ISREG(mode):
                yield path, *_file(name, folder, path)
            elif not stat.S_ISDIR(mode):
                continue
            else:
                if path.count("/") >= trees.MOST_FOLDERS - 1:
                    raise GitError("E_LIMIT", f"more than {trees.MOST_FOLDERS} folders within each other")
                deeper = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    yield from _walk(deeper, f"{path}/", ignore)
                finally:
                    os.close(deeper)
        except FileNotFoundError:
            continue


def _file(name: str, folder: int, path: str) -> tuple[str, bytes]:
    fd = os.open(name, _READ, dir_fd=folder)
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise GitError("E_PATH", f"{trees.shown(path)} is not a file any more")
        data = file.read(trees.MOST_BYTES + 1)
        if len(data) > trees.MOST_BYTES:
            raise GitError("E_LIMIT", f"{trees.shown(path)} is larger than {trees.MOST_BYTES:,} bytes")
        return trees.PROGRAM if info.st_mode & 0o100 else trees.FILE, data


class Writer:
    """Fills an empty folder. Every method raises GitError (``E_PATH``); the folder is emptied again by ``clear``."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._folder, self._fd = "", root
        if os.listdir(root):
            raise GitError("E_PATH", "the folder to write into is not empty")

    def file(self, path: str, mode: str, data: bytes) -> None:
        """Make one file."""
        folder, _, name = path.rpartition("/")
        try:
            fd = os.open(name, _MAKE, 0o755 if mode == trees.PROGRAM else 0o644, dir_fd=self._enter(folder))
            with os.fdopen(fd, "wb") as file:
                file.write(data)
        except OSError as error:
            raise _refusal(path, error) from None

    def link(self, path: str, target: bytes) -> None:
        """Make one link."""
        folder, _, name = path.rpartition("/")
        try:
            os.symlink(target, os.fsencode(name), dir_fd=self._enter(folder))
        except OSError as error:
            raise _refusal(path, error) from None

    def clear(self) -> None:
        """Remove what was written."""
        self._leave()
        with contextlib.suppress(OSError):
            _empty(self._root)

    def close(self) -> None:
        """Let go of the folder."""
        self._leave()

    def _enter(self, folder: str) -> int:
        if folder == self._folder:
            return self._fd
        self._leave()
        at = os.dup(self._root)
        try:
            for part in folder.split("/") if folder else ():
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=at)
                deeper = os.open(part, _FOLDER, dir_fd=at)
                os.close(at)
                at = deeper
        except BaseException:
            os.close(at)
            raise
        self._folder, self._fd = folder, at
        return at

    def _leave(self) -> None:
        if self._fd != self._root:
            os.close(self._fd)
        self._folder, self._fd = "", self._root


def _empty(folder: int) -> None:
    for name in os.listdir(folder):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            deeper = os.open(name, _FOLDER, dir_fd=folder)
            try:
                _empty(deeper)
            finally:
                os.close(deeper)
            os.rmdir(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


def _refusal(path: str, error: OSError) -> GitError:
    return GitError("E_PATH", f"{trees.shown(path)} cannot be written: {error.strerror}")
