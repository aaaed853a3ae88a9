"""The kernel's only ways to the outside world: time, randomness, ids, files, and slow real work."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """Time in seconds. Durations and deadlines use ``monotonic``; ``wall`` is for display and calendar days."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch; may jump."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()


class LoopClock:
    """The running event loop's clock: virtual on a virtual-time loop, the machine's otherwise."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.monotonic = loop.time

    def wall(self) -> float:
        return time.time()


def derive_seed(*parts: object) -> int:
    """A 63-bit seed from names and numbers, the same on every machine and Python."""
    text = "\x1f".join(str(p) for p in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def rng(*parts: object) -> random.Random:
    """A generator of its own for a purpose, seeded by ``derive_seed``."""
    return random.Random(derive_seed(*parts))


class Ids:
    """Short ids in order of asking: ``m1``, ``m2``, …; deterministic where the asking is."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._last = 0

    def next(self) -> str:
        """The next id."""
        self._last += 1
        return f"{self._prefix}{self._last}"


class Effects(Protocol):
    """Slow real work (a test run, a file copy) awaited from an episode."""

    async def run(self, work: Callable[[], T], *, cost: Callable[[T], float]) -> T:
        """Do blocking ``work``; ``cost`` declares from its result how many seconds of episode time it takes."""
        ...


class RealEffects:
    """Work runs in a thread and takes the time that it takes."""

    async def run(self, work: Callable[[], T], *, cost: Callable[[T], float]) -> T:
        return await asyncio.to_thread(work)


class VirtualEffects:
    """Time stands still while the work is done, then advances by its declared cost: load changes nothing."""

    async def run(self, work: Callable[[], T], *, cost: Callable[[T], float]) -> T:
        result = work()
        await asyncio.sleep(cost(result))
        return result


class Files(Protocol):
    """Durable writes."""

    def append(self, path: Path, data: bytes, *, sync: bool) -> None:
        """Append whole; with ``sync`` return only when it is on disk."""
        ...

    def replace(self, path: Path, data: bytes) -> None:
        """Write a file atomically: the old content or the new, never a mixture."""
        ...


class SystemFiles:
    """The machine's file system."""

    def append(self, path: Path, data: bytes, *, sync: bool) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)

    def replace(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
