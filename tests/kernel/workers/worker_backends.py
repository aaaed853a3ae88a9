"""Backends over the engine without a model, and what one looks for around them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from apex_framework.interfaces import ModelIdentity
from apex_framework.testing.engine import ENGINE
from apex_framework.workers import FleetSettings, Memory, MemoryLimits, ModelInfo, WorkerBackend
from apex_framework.workers.memory import read_memory as read_this_machine

MADE: list[WorkerBackend] = []
"""Closed after each test: one that fails, as planted bugs want it, must not disturb the next."""


def make(
    *,
    instances: int = 1,
    load_s: float = 60.0,
    grace_s: float = 2.0,
    memory: MemoryLimits | None = None,
    read_memory: Callable[[], Awaitable[Memory | None]] = read_this_machine,
    **options: Any,
) -> WorkerBackend:
    """A backend whose engine has these options."""
    settings = FleetSettings(
        ENGINE, options, instances, load_s=load_s, grace_s=grace_s, memory=memory, read_memory=read_memory
    )
    MADE.append(WorkerBackend(ModelInfo("words", 4096, "words", lambda: ModelIdentity("words")), settings))
    return MADE[-1]


def alive(pid: int) -> bool:
    """Whether such a process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Wait for something that happens in another process."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def held() -> tuple[int, int, int]:
    """Open descriptors, threads and children of this process."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    threads = [t for t in threading.enumerate() if t.name.startswith("apex-")]
    return len(os.listdir("/proc/self/fd")), len(threads), len(children)
