"""Findings on the machine: Python, platform, processors, memory, clock, and the tools that could confine task code."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Final

from ...interfaces import Finding, Grade
from ...workers.machine import Memory, memory_now

LEAST_PYTHON: Final = (3, 11)
LEAST_FREE: Final = 1 << 30
"""Bytes of memory below which tests of tasks may be killed."""
WRITTEN: Final = 1_735_689_600.0
"""2025-01-01 UTC: APEX is younger, so a clock that says less is wrong."""
SKEW_S: Final = 5.0
SANDBOXES: Final = ("bwrap", "docker", "podman")


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Iterator[Finding]:
    """The interpreter."""
    shown = f"{platform.python_implementation()} {'.'.join(map(str, version))} at {sys.executable}"
    if version[:2] < LEAST_PYTHON:
        yield Finding("python", Grade.FAIL, shown, "install Python 3.11 or later")
    elif platform.python_implementation() != "CPython":
        yield Finding("python", Grade.WARN, shown, "only CPython is tested")
    else:
        yield Finding("python", Grade.OK, shown)


def system(name: str = sys.platform) -> Iterator[Finding]:
    """The operating system and its processor."""
    shown = f"{platform.system()} {platform.release()}, {platform.machine()}"
    tested = name.startswith("linux") or name == "darwin"
    yield Finding("platform", Grade.OK if tested else Grade.WARN, shown, "" if tested else "take Linux or macOS")


def processors(workers: int = 0) -> Iterator[Finding]:
    """How many processors this process may use; ``workers`` is how many would work at once."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    whole = os.cpu_count() or count
    shown = f"{count}" + (f" of {whole}" if whole > count else "")
    if workers > count:
        yield Finding("cores", Grade.WARN, f"{shown}, for {workers} workers", f"set --workers to {count} or less")
    else:
        yield Finding("cores", Grade.OK, shown)


def free_memory(now: Memory | None = None) -> Iterator[Finding]:
    """What of memory can be had."""
    now = now or memory_now()
    if now is None:
        yield Finding("memory", Grade.WARN, "this system does not tell", "see for yourself that 1 GB is free")
        return
    shown = f"{now.available / 1e9:.1f} GB free of {now.total / 1e9:.1f} GB"
    few = now.available < LEAST_FREE
    yield Finding("memory", Grade.WARN if few else Grade.OK, shown, "end other programs" if few else "")


def clock() -> Iterator[Finding]:
    """The wall clock against the year and the file system, and whether the other clock runs forward."""
    remedy = "set the machine's clock (NTP): budgets per day and run folders are named by it"
    begun, now = time.monotonic(), time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
        file.flush()
        skew = os.fstat(file.fileno()).st_mtime - now
    if now < WRITTEN:
        yield Finding("clock", Grade.FAIL, f"{shown}, before APEX was written", remedy)
    elif abs(skew) > SKEW_S:
        yield Finding("clock", Grade.WARN, f"{shown}; files are stamped {skew:+.0f} s from it", remedy)
    elif time.monotonic() < begun:
        yield Finding("clock", Grade.FAIL, "the monotonic clock goes back", "report this to who runs the machine")
    else:
        yield Finding("clock", Grade.OK, shown)


def sandbox_tools() -> Iterator[Finding]:
    """Programs that could confine the code of tasks. They are looked for, not tried."""
    for name in SANDBOXES:
        path = shutil.which(name)
        yield Finding(f"tool {name}", Grade.OK, path or "not found; nothing that is set needs it")
