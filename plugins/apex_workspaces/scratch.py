"""Scratch folders that vanish with the process that made them.

Who uses one holds a lock on it, which the system drops when the last process that has it is gone. A process number alone would
not do: it is given again, and means another process in another container that shares the folder of temporary files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import weakref
from pathlib import Path

from . import removing

_PREFIX = "apex-ws-"


class Scratch:
    """A fresh private folder named after this process, held until ``remove`` or the end of the process."""

    def __init__(self) -> None:
        sweep()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")).resolve()
            # Whoever sweeps may have it for a moment. Where the file system knows no locks, nobody sweeps it either.
            fd = _held(self.path, wait=True)
            if fd >= 0 or self.path.exists():
                break
        self._let_go = weakref.finalize(self, os.close, fd) if fd >= 0 else None

    def remove(self) -> None:
        """Remove the tree, whatever permissions task code gave to it; idempotent."""
        remove(self.path)
        if self._let_go is not None:
            self._let_go()


def remove(path: Path) -> None:
    """Remove a tree; what another process removes at the same time, or the system does not give away, is passed over."""
    with contextlib.suppress(OSError):
        removing.remove(path)


def sweep(parent: Path | None = None) -> list[Path]:
    """Remove the user's scratch folders that nobody uses any more; returns them."""
    swept = []
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if not pid.isdigit() or _alive(int(pid)) or folder.is_symlink() or not _mine(folder):
            continue
        fd = _held(folder)
        if fd >= 0:
            try:
                remove(folder)
                swept.append(folder)
            finally:
                os.close(fd)
    return swept


def in_use(folder: Path) -> bool:
    """Whether a process has this scratch folder still."""
    fd = _held(folder)
    if fd >= 0:
        os.close(fd)
    return fd < 0 and folder.exists()


def _held(folder: Path, *, wait: bool = False) -> int:
    """A descriptor that holds the folder's lock; -1 where another has it, or the folder was removed meanwhile."""
    try:
        fd = os.open(folder, removing.FOLDER)
    except OSError:
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.stat(folder, follow_symlinks=False)):
            return fd
    except OSError:
        pass
    os.close(fd)
    return -1


def _mine(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.getuid()
    except FileNotFoundError:
        return False


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
