"""What this machine has, and what its files are."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from ..errors import ConfigError, ModelError

MOST_INSTANCES: Final = 64
INSTANCES: Final = "APEX_NUM_LLM_INSTANCES"


def instances_from(option: int | None, default: int = 1) -> int:
    """How many processes: the option, else APEX_NUM_LLM_INSTANCES, else ``default``. Raises ConfigError."""
    named = os.environ.get(INSTANCES, "") if option is None else option
    if named == "":
        return default
    try:
        number = int(named) if isinstance(named, str) else named
    except ValueError:
        number = 0
    if type(number) is not int or not 1 <= number <= MOST_INSTANCES:
        raise ConfigError(
            f"{INSTANCES} (option instances) must be an integer from 1 to {MOST_INSTANCES}, not {named!r}"
        )
    return number


def available_memory() -> int | None:
    """Bytes that can be had without swapping, by the machine and by this process's control group; None if untold."""
    found = [n for n in (_meminfo(), _cgroup()) if n is not None]
    if found:
        return min(found)
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        pass
    try:  # macOS tells only the whole: what the file's pages push out is counted as free
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def file_digest(path: Path) -> str:
    """``sha256:...`` of a file; gigabytes take seconds. Raises ModelError."""
    try:
        with open(path, "rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from error


def _meminfo() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def _cgroup() -> int | None:
    root = Path("/sys/fs/cgroup")
    try:
        limit, used = (root / "memory.max").read_text().strip(), int((root / "memory.current").read_text())
        return max(0, int(limit) - used) if limit != "max" else None
    except (OSError, ValueError):
        return None
