"""One process per run folder."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path

from ..errors import RunFolderError

LOCK = ".lock"
"""Name of the lock file; it says who holds the folder."""


class FolderLock:
    """An advisory lock that the system releases when its process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Take the lock. Raises RunFolderError that names the holder, or says why it cannot be taken."""
        self._path = folder / LOCK
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise RunFolderError(f"cannot write to {folder}: {error.strerror}", "choose another --out") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 200, 0).decode(errors="replace")
            os.close(self._fd)
            raise RunFolderError(
                f"{folder} is in use by {_describe(holder)}", "wait for it, or choose another --out"
            ) from None
        except OSError as error:
            os.close(self._fd)
            raise RunFolderError(f"cannot lock {folder}: {error.strerror}", "choose a local folder as --out") from error
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)

    def release(self) -> None:
        """Give the folder free; idempotent."""
        if self._fd >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = -1


def _describe(holder: str) -> str:
    try:
        data = json.loads(holder)
        return f"process {data['pid']} on {data['host']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
