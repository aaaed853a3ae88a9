"""One process per run folder, and a new run only where nothing of anybody else is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
from pathlib import Path

from ..errors import ArtifactError, RunFolderError
from .layout import EPISODES

LOCK = ".lock"
"""Name of the lock file; it says who holds the folder."""
_BEGINNING = re.compile(r"config\.toml|\.(?:config\.toml|run\.json)\.\d+\.tmp")
"""What is written before the plan is there."""


class FolderLock:
    """An advisory lock that the system releases when its process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Take the lock. Raises RunFolderError that names the holder, or says why it cannot be taken."""
        self._path = folder / LOCK
        self._fd = self._take(folder)
        while not self._is_current():  # its holder removed the file, with the folder, before this process had it
            os.close(self._fd)
            self._fd = self._take(folder)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)

    def release(self) -> None:
        """Give the folder free; idempotent. The file stays: whoever has it open already must find the same one."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """Give a folder free that is no run folder any more, without a lock file in it."""
        if self._fd >= 0:
            self._path.unlink(missing_ok=True)
        self.release()

    def _take(self, folder: Path) -> int:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise RunFolderError(f"cannot write to {folder}: {error.strerror}", "choose another --out") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 200, 0).decode(errors="replace")
            os.close(fd)
            raise RunFolderError(
                f"{folder} is in use by {_describe(holder)}", "wait for it, or choose another --out"
            ) from None
        except OSError as error:
            os.close(fd)
            raise RunFolderError(f"cannot lock {folder}: {error.strerror}", "choose a local folder as --out") from error
        return fd

    def _is_current(self) -> bool:
        """Whether the locked file is the one that others would open."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path))
        except FileNotFoundError:
            return False


def claim(path: Path) -> tuple[FolderLock, bool]:
    """Lock a folder for a new run, and say whether it was made for that.

    What a run leaves that was killed before its plan was written is removed. Raises RunFolderError when anything else is in
    it but a lock file, ArtifactError for a run whose plan is gone; then nothing is changed.
    """
    try:
        try:
            path.mkdir(parents=True)
            made = True
        except FileExistsError:
            made = False
        _require_empty(path)
        lock = FolderLock(path)
    except OSError as error:
        raise RunFolderError(f"cannot make {path}: {error.strerror}", "choose another --out") from error
    try:
        _require_empty(path)  # another process may have made a run in it, and be done, before the lock was taken
        for entry in path.iterdir():
            if _BEGINNING.fullmatch(entry.name):
                entry.unlink()
    except BaseException:
        lock.release()
        raise
    return lock, made


def require_free(path: Path) -> None:
    """Look whether a new run can be made at ``path``, before the work of planning it: nothing is made or locked.

    Raises RunFolderError when it is no folder, when anything but a lock file, or what is left of a run that was killed before
    its plan was written, is in it, or when it cannot be read; ArtifactError for a run whose plan is gone.
    """
    try:
        if path.exists():
            _require_empty(path)
    except OSError as error:
        raise RunFolderError(f"cannot make {path}: {error.strerror}", "choose another --out") from error


def _require_empty(path: Path) -> None:
    entries = [*path.iterdir()]
    locks = [entry for entry in entries if _is_lock(entry)]
    names = sorted(entry.name for entry in entries if entry not in locks)
    # Only a holder that was killed leaves its name in the lock file.
    killed = any(lock.stat().st_size for lock in locks) and all(map(_BEGINNING.fullmatch, names))
    if names and not killed:
        if EPISODES in names:
            raise ArtifactError(
                f"{path / 'run.json'} is missing, and with it the plan of the results in {EPISODES}",
                "restore it, or choose another --out",
            )
        there = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        raise RunFolderError(f"{path} is not empty and holds no run ({there})", "choose another --out")


def _is_lock(entry: Path) -> bool:
    if entry.name != LOCK or entry.is_symlink() or not entry.is_file():
        return False
    with open(entry, "rb") as file:
        content = file.read(200)
    with contextlib.suppress(ValueError):
        return not content or set(json.loads(content)) == {"pid", "host"}
    return False


def _describe(holder: str) -> str:
    try:
        data = json.loads(holder)
        return f"process {data['pid']} on {data['host']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
