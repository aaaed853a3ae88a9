"""What this machine has, and what its files are."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
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


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that can be had without swapping, of how many."""

    available: int
    total: int

    @property
    def free_share(self) -> float:
        """Share of the whole that can be had, in [0, 1]."""
        return max(0.0, min(1.0, self.available / self.total)) if self.total > 0 else 0.0


def memory_now(root: Path = Path("/")) -> Memory | None:
    """The tighter of this machine's memory and its control group's, by share; None where the system tells neither.

    What the system can drop (the cache of files, so the weights that a process maps) counts as available, as in Linux's own
    MemAvailable. ``root`` stands before /proc and /sys.
    """
    if sys.platform == "darwin":
        return _macos()
    found = [m for m in (_meminfo(root), *_groups(root)) if m is not None]
    return min(found, key=lambda m: m.free_share, default=None) or _posix()


def available_memory() -> int | None:
    """Bytes that can be had without swapping, by the machine and by this process's control group; None if untold."""
    now = memory_now()
    return None if now is None else now.available


def file_digest(path: Path) -> str:
    """``sha256:...`` of a file; gigabytes take seconds. Raises ModelError."""
    try:
        with open(path, "rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from error


def _meminfo(root: Path) -> Memory | None:
    try:
        text = (root / "proc/meminfo").read_text()
        found = {m[1]: int(m[2]) * 1024 for m in re.finditer(r"^(MemTotal|MemAvailable):\s+(\d+) kB", text, re.M)}
        return Memory(found["MemAvailable"], found["MemTotal"])
    except (OSError, KeyError):
        return None


def _groups(root: Path) -> Iterator[Memory | None]:
    """What each control group above this process allows, of either version of the interface."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    here = next((line.split(":", 2)[2] for line in lines if line.startswith("0::")), "/")
    path = PurePosixPath(here)
    top = root / "sys/fs/cgroup"
    for group in (path, *path.parents):
        folder = top / str(group).strip("/")
        yield _group(folder / "memory.max", folder / "memory.current", folder / "memory.stat", "")
    old = top / "memory"
    yield _group(old / "memory.limit_in_bytes", old / "memory.usage_in_bytes", old / "memory.stat", "total_")


def _group(limit: Path, used: Path, stat: Path, prefix: str) -> Memory | None:
    try:
        most, now = limit.read_text().strip(), int(used.read_text())
        if most == "max" or int(most) >= 1 << 60:  # how the older interface says that there is no limit
            return None
        stats = dict(line.split() for line in stat.read_text().splitlines())
        dropped = sum(int(stats.get(prefix + name, 0)) for name in ("active_file", "inactive_file", "slab_reclaimable"))
        return Memory(max(0, min(int(most), int(most) - now + dropped)), int(most))
    except (OSError, ValueError):
        return None


def _macos() -> Memory | None:
    try:
        told = [
            subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout
            for command in (["/usr/bin/vm_stat"], ["/usr/sbin/sysctl", "-n", "hw.memsize"])
        ]
        return from_vm_stat(told[0], int(told[1]))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def from_vm_stat(text: str, total: int) -> Memory | None:
    """What macOS's ``vm_stat`` says: free, inactive, speculative and purgeable pages can be had."""
    size = re.search(r"page size of (\d+) bytes", text)
    pages = {m[1]: int(m[2]) for m in re.finditer(r"^Pages ([\w ]+):\s+(\d+)\.", text, re.M)}
    if size is None or "free" not in pages or total <= 0:
        return None
    had = sum(pages.get(name, 0) for name in ("free", "inactive", "speculative", "purgeable"))
    return Memory(min(total, had * int(size[1])), total)


def _posix() -> Memory | None:
    try:
        names = ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES")
        free, total = (os.sysconf(name) * os.sysconf("SC_PAGE_SIZE") for name in names)
        return Memory(free, total)
    except (ValueError, OSError):
        return None
