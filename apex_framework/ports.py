"""The kernel's only ways to the outside world: time, randomness, ids, files, and slow real work."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import random
import stat
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
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") >> 1


def rng(*parts: object) -> random.Random:
    """A generator of its own for a purpose, seeded by ``derive_seed``."""
    return random.Random(derive_seed(*parts))


def unique(size: int) -> bytes:
    """So many bytes that no other call gave or will give, on any machine."""
    return os.urandom(size)


class Ids:
    """Short ids in order of asking: ``m1``, ``m2``, …; deterministic where the asking is."""

    def __init__(self, prefix: str, last: int = 0) -> None:
        """Go on after the id with the number ``last``."""
        self._prefix = prefix
        self._last = last

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


class LogFile(Protocol):
    """A file that nobody else may have open as a log. Every method raises OSError; positions and sizes are in bytes."""

    def size(self) -> int:
        """Length of the file."""
        ...

    def read(self, size: int, offset: int) -> bytes:
        """So many bytes from there; fewer only at the end of the file."""
        ...

    def write(self, data: bytes, offset: int) -> None:
        """Write whole; on disk only after ``sync``. When it raises, any part may have been written."""
        ...

    def sync(self) -> None:
        """Return when all that was written is on disk. What a failed call leaves behind is unknown, also to the next."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file; on disk only after ``sync``."""
        ...

    def close(self) -> None:
        """Give the file free; idempotent, never fails."""
        ...


class Files(Protocol):
    """Durable writes."""

    def append(self, path: Path, data: bytes, *, sync: bool) -> None:
        """Append whole; with ``sync`` return only when it is on disk."""
        ...

    def replace(self, path: Path, data: bytes) -> None:
        """Write a file atomically: the old content or the new, never a mixture."""
        ...

    def log(self, path: Path, *, new: bytes) -> LogFile:
        """Open a file for this caller alone; one that is not there is made, atomically and durably, with content ``new``.

        Raises BlockingIOError when another process, or another opener in this one, has it; otherwise OSError.
        """
        ...


class FileSystem(Protocol):
    """The system calls under SystemFiles: the seam at which a simulation takes the machine's place.

    Each method is one call, may raise any OSError, and means what POSIX says of its namesake.
    """

    def open(self, path: Path, flags: int) -> int:
        """A descriptor; folders are opened to be synced."""
        ...

    def close(self, fd: int) -> None:
        """Give a descriptor, and the lock that it holds, free."""
        ...

    def lock(self, fd: int) -> None:
        """Take the file for this descriptor alone; BlockingIOError when another has it."""
        ...

    def same(self, fd: int, path: Path) -> bool:
        """Whether the path leads to the opened file."""
        ...

    def size(self, fd: int) -> int:
        """Length in bytes; OSError when it is no regular file."""
        ...

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """At most so many bytes; none at the end."""
        ...

    def write(self, fd: int, data: bytes | memoryview, offset: int | None) -> int:
        """Write at the offset, or where the descriptor stands; how many bytes were written may be fewer than given."""
        ...

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file."""
        ...

    def sync(self, fd: int) -> None:
        """Return when the file's content, or the folder's entries, are on disk."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Move a file over another, atomically."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file's name; one that is not there is removed already."""
        ...


class LocalFileSystem:
    """The machine's own."""

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags, 0o666)

    def close(self, fd: int) -> None:
        os.close(fd)

    def lock(self, fd: int) -> None:
        import fcntl  # not on every platform

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def same(self, fd: int, path: Path) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.stat(path))
        except FileNotFoundError:
            return False

    def size(self, fd: int) -> int:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return status.st_size

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def write(self, fd: int, data: bytes | memoryview, offset: int | None) -> int:
        return os.write(fd, data) if offset is None else os.pwrite(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)


class SystemFiles:
    """Files on a file system, by default the machine's."""

    def __init__(self, system: FileSystem | None = None) -> None:
        self._system = system or LocalFileSystem()

    def append(self, path: Path, data: bytes, *, sync: bool) -> None:
        fd = self._system.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            _write(self._system, fd, data, None)
            if sync:
                self._system.sync(fd)
        finally:
            self._system.close(fd)

    def replace(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            fd = self._system.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                _write(self._system, fd, data, None)
                self._system.sync(fd)
            finally:
                self._system.close(fd)
            self._system.rename(temporary, path)
        finally:
            self._system.remove(temporary)

    def log(self, path: Path, *, new: bytes) -> LogFile:
        for _ in range(100):
            fd = self._locked(path, os.O_RDWR)
            if fd is None:
                fd = self._made(path, new)
            if fd is not None:
                return self._log(path, fd)
        raise OSError(errno.EAGAIN, "the file is made and removed again and again")

    def _log(self, path: Path, fd: int) -> LogFile:
        try:
            self._sync_folder(path.parent)  # its maker may have died before: then the name is not on disk yet
        except BaseException:
            self._system.close(fd)
            raise
        return _SystemLog(self._system, fd)

    def _locked(self, path: Path, flags: int) -> int | None:
        """The file, opened and locked; None when it is not there, or not there any more."""
        try:
            fd = self._system.open(path, flags)
        except FileNotFoundError:
            if flags & os.O_CREAT:
                raise
            return None
        try:
            self._system.lock(fd)
            if self._system.same(fd, path):
                return fd
        except BaseException:
            self._system.close(fd)
            raise
        self._system.close(fd)
        return None

    def _made(self, path: Path, content: bytes) -> int | None:
        """The new file, locked since before it had its name; None when another opener was faster.

        All openers write to one temporary name under its lock, so that only one of them can be between
        looking whether the file is there and naming it.
        """
        temporary = path.with_name(f".{path.name}.new")
        fd = self._locked(temporary, os.O_RDWR | os.O_CREAT)
        if fd is None:
            return None
        try:
            if self._there(path):
                self._system.remove(temporary)
                self._system.close(fd)
                return None
            self._system.truncate(fd, 0)
            _write(self._system, fd, content, 0)
            self._system.sync(fd)
            self._system.rename(temporary, path)
        except BaseException:
            self._system.close(fd)
            raise
        return fd

    def _there(self, path: Path) -> bool:
        try:
            self._system.close(self._system.open(path, os.O_RDONLY))
        except FileNotFoundError:
            return False
        return True

    def _sync_folder(self, folder: Path) -> None:
        fd = self._system.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._system.sync(fd)
        finally:
            self._system.close(fd)


class _SystemLog:
    def __init__(self, system: FileSystem, fd: int) -> None:
        self._system = system
        self._fd = fd

    def size(self) -> int:
        return self._system.size(self._fd)

    def read(self, size: int, offset: int) -> bytes:
        parts = []
        while size and (part := self._system.read(self._fd, size, offset)):
            parts.append(part)
            size -= len(part)
            offset += len(part)
        return b"".join(parts)

    def write(self, data: bytes, offset: int) -> None:
        _write(self._system, self._fd, data, offset)

    def sync(self) -> None:
        self._system.sync(self._fd)

    def truncate(self, size: int) -> None:
        self._system.truncate(self._fd, size)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with contextlib.suppress(OSError):  # the descriptor is gone all the same, and sync told what is on disk
                self._system.close(fd)


def _write(system: FileSystem, fd: int, data: bytes, offset: int | None) -> None:
    """Write whole: a call may write a part, and be interrupted before it wrote any."""
    view = memoryview(data)
    while view:
        try:
            written = system.write(fd, view, offset)
        except InterruptedError:
            continue
        view = view[written:]
        if offset is not None:
            offset += written
