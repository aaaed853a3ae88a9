"""Removing folders that hold anything: closed to their owner, nested without end."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from apex_framework.errors import WorkspaceError

MOST_DEPTH: Final = 200
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def opened(folder: int, name: str) -> int:
    """A folder inside, made passable if its owner closed it."""
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=folder)
        return os.open(name, FOLDER, dir_fd=folder)


def remove(root: Path) -> None:
    """Remove a folder with all that is in it, whatever permissions code gave to it; idempotent."""
    try:
        fd = os.open(root, FOLDER)
    except FileNotFoundError:
        return
    except PermissionError:
        os.chmod(root, 0o700)
        fd = os.open(root, FOLDER)
    try:
        empty(fd)
    finally:
        os.close(fd)
    os.rmdir(root)


def unwritten(task: str, error: OSError) -> WorkspaceError:
    """A workspace could not be written, and nothing of it is left."""
    why = error.strerror or type(error).__name__
    return WorkspaceError(f"task {task}: its files cannot be written: {why}", "look at its paths, and at the disk")


def empty(folder: int) -> None:
    """Remove what is in a folder, one that is nested without end included: what is deep down is moved up first."""
    for attempt in range(10_000):
        if not _clear(folder, 0, f"{os.getpid()}-{attempt}", folder):
            return
    raise WorkspaceError("a folder cannot be emptied", "remove it by hand")


def _clear(folder: int, depth: int, mark: str, top: int) -> bool:
    """Empty a folder; whether something too deep was moved to the top instead."""
    moved = False
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for number, (name, is_folder) in enumerate(found):
        if not is_folder:
            try:
                os.unlink(name, dir_fd=folder)
            except FileNotFoundError:
                continue
            except PermissionError:
                os.fchmod(folder, 0o700)
                os.unlink(name, dir_fd=folder)
            continue
        if depth >= MOST_DEPTH:
            os.rename(name, f".deep-{mark}-{number}", src_dir_fd=folder, dst_dir_fd=top)
            moved = True
            continue
        deeper = opened(folder, name)
        try:
            os.fchmod(deeper, 0o700)
            moved |= _clear(deeper, depth + 1, mark, top)
        finally:
            os.close(deeper)
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(name, dir_fd=folder)
    return moved
