"""Scratch folders that vanish with the process that made them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "apex-ws-"


def make_scratch() -> Path:
    """A fresh private folder named after this process; folders of dead processes are removed first."""
    sweep()
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")).resolve()


def remove(path: Path) -> None:
    """Remove a tree, whatever permissions task code gave to it."""
    if not path.exists():
        return
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o700)
    shutil.rmtree(path, ignore_errors=True)


def sweep(parent: Path | None = None) -> list[Path]:
    """Remove the user's scratch folders whose process is gone; returns them."""
    swept = []
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not _alive(int(pid)) and not folder.is_symlink() and _mine(folder):
            remove(folder)
            swept.append(folder)
    return swept


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
