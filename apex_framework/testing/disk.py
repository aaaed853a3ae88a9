"""A disk that forgets what was not synced, fails or stops at any call, and does so the same way for the same seed.

``SimulatedDisk`` stands where the machine's file system would, under the very code that production uses; ``crashes``
of the module beside it stops a program at every call and gives every disk that may be left.
"""

from __future__ import annotations

import copy
import errno
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ..ports import SystemFiles, derive_seed

SECTOR = 512
"""What the disk writes whole or not at all, in bytes."""


class SimulatedCrash(BaseException):
    """The machine stopped here. Not an Exception: no handler may outlive it."""


class Crash(StrEnum):
    """What becomes of that which was not synced when the machine stops."""

    KILLED = "killed"
    """All of it survives, and is still not synced: only the process died."""
    LOST = "lost"
    """None of it survives."""
    PREFIX = "prefix"
    """What came first survives, up to ``keep`` bytes; a change of a folder or of a size counts as one."""
    ZEROED = "zeroed"
    """As PREFIX; the files' sizes arrived all the same, and what is new in them reads as zeros."""
    REORDERED = "reordered"
    """Of each sector any state that it was in since the last sync, of each file any size, of each name any owner,
    drawn by ``seed``: later writes may survive without earlier ones, and what never arrived reads as zeros."""
    TORN = "torn"
    """As REORDERED, and any sector may be new up to some byte and old behind it."""


@dataclass(eq=False)
class _File:
    durable: bytes = b""
    cached: bytes = b""
    locked: int | None = None


@dataclass(eq=False)
class _Folder:
    durable: dict[str, _File] = field(default_factory=dict)
    cached: dict[str, _File] = field(default_factory=dict)


@dataclass
class _Change:
    """Something that is not on disk yet."""

    of: _File | _Folder
    data: bytes = b""
    offset: int = 0
    size: int | None = None
    """The new size: a truncation."""
    names: dict[str, _File | None] = field(default_factory=dict)
    abandoned: bool = False
    """A sync of it failed: no later one will bring it to disk, and yet it may get there."""

    @property
    def units(self) -> int:
        return len(self.data) or 1

    def on(self, content: bytes, data: bytes | None = None) -> bytes:
        data = self.data if data is None else data
        if self.size is not None:
            return content[: self.size].ljust(self.size, b"\0")
        return content[: self.offset].ljust(self.offset, b"\0") + data + content[self.offset + len(data) :]


class SimulatedDisk(SystemFiles):
    """Files, and the file system under them, in memory. ``root`` is its only folder.

    Every call of FileSystem is counted in ``calls`` and named in ``trace``. ``stop_at(n)`` raises SimulatedCrash in
    place of the n-th call from now and of all that follow; ``fail_at(n, errno.EIO)`` makes it fail. After a
    failed sync of a file what it should have saved stays readable, and later syncs succeed without saving it,
    as on Linux. With ``short_writes`` a write takes only a part, drawn by ``seed``. ``crash`` gives the disk that
    the next process would find.
    """

    def __init__(self, *, seed: int = 0, short_writes: bool = False) -> None:
        super().__init__(self)
        self.root = Path("/simulated")
        self.calls = 0
        self.trace: list[str] = []
        self.stopped = ""
        """The call that the machine stopped at, once it did."""
        self._rng = random.Random(derive_seed("disk", seed))
        self._short_writes = short_writes
        self._folder = _Folder()
        self._fds: dict[int, tuple[_File | _Folder, list[int]]] = {}
        self._last_fd = 2
        self._changes: list[_Change] = []
        self._stop_at: int | None = None
        self._faults: dict[int, int] = {}
        self._broken: tuple[int, int] | None = None

    # --- what the test decides ---------------------------------------------------------------

    def stop_at(self, call: int) -> None:
        """Stop the machine instead of that call, counted from 1 from now."""
        self._stop_at = self.calls + call

    def fail_at(self, call: int, error: int = errno.EIO, *, forever: bool = False) -> None:
        """Fail that call, counted from 1 from now, with an errno; ``forever``: and every later one."""
        if forever:
            self._broken = (self.calls + call, error)
        else:
            self._faults[self.calls + call] = error

    def heal(self) -> None:
        """No more failures; a machine that stopped stays as it is."""
        self._faults.clear()
        self._broken = None

    @property
    def unsynced(self) -> int:
        """How much a crash can still take, in the units of Crash.PREFIX."""
        return sum(change.units for change in self._changes)

    def content(self, name: str) -> bytes | None:
        """What a file reads as now; None when it is not there."""
        file = self._folder.cached.get(name)
        return None if file is None else file.cached

    def put(self, name: str, content: bytes) -> None:
        """Lay a file down, durably."""
        file = self._folder.cached.setdefault(name, _File())
        file.durable = file.cached = content
        self._folder.durable[name] = file

    def names(self) -> list[str]:
        """Names of the files that are there."""
        return sorted(self._folder.cached)

    def crash(self, model: Crash, *, keep: int = 0, seed: int = 0) -> SimulatedDisk:
        """The disk after the machine stopped now; this one stays as it is. Locks and faults are gone."""
        if model is Crash.KILLED:
            return self._outlived(seed)
        rng = random.Random(derive_seed("crash", model, seed))
        left = SimulatedDisk(seed=seed)
        names = dict(self._folder.durable)
        if model in (Crash.REORDERED, Crash.TORN):
            contents = {file: self._mixture(file, rng, torn=model is Crash.TORN) for file in self._files()}
            for change in self._changes:
                if isinstance(change.of, _Folder) and rng.random() < 0.5:
                    _rename(names, change.names)
        else:
            contents = {file: file.durable for file in self._files()}
            for change in () if model is Crash.LOST else self._changes:
                data = change.data[: max(keep, 0)]
                if model is Crash.ZEROED and isinstance(change.of, _File):
                    start, stop = change.offset + len(data), change.offset + len(change.data)
                    data += contents[change.of][start:stop].ljust(stop - start, b"\0")
                if isinstance(change.of, _File) and (data or keep >= 1):
                    contents[change.of] = change.on(contents[change.of], data)
                elif isinstance(change.of, _Folder) and keep >= 1:
                    _rename(names, change.names)
                keep -= change.units
        for name, file in names.items():
            left.put(name, contents[file])
        return left

    def _mixture(self, file: _File, rng: random.Random, *, torn: bool) -> bytes:
        states = [file.durable]
        for change in self._changes:
            if change.of is file:
                states.append(change.on(states[-1]))
        size = len(rng.choice(states))
        sectors = []
        for start in range(0, size, SECTOR):
            length = min(SECTOR, size - start)
            old, new = sorted(rng.choices(range(len(states)), k=2))
            kept = rng.randint(0, length) if torn else length
            sectors.append(
                (
                    states[new][start : start + kept].ljust(kept, b"\0") + states[old][start + kept : start + length]
                ).ljust(length, b"\0")
            )
        return b"".join(sectors)

    # --- FileSystem --------------------------------------------------------------------------

    def open(self, path: Path, flags: int) -> int:
        self._call(f"open {path.name}")
        self._last_fd = fd = self._last_fd + 1
        if path == self.root:
            if flags & (os.O_WRONLY | os.O_RDWR):
                raise _error(errno.EISDIR)
            self._fds[fd] = (self._folder, [0])
            return fd
        if path.parent != self.root:
            raise _error(errno.ENOENT)
        file = self._folder.cached.get(path.name)
        if file is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT)
            file = _File()
            self._change(_Change(self._folder, names={path.name: file}))
        if flags & os.O_TRUNC and file.cached:
            self._change(_Change(file, size=0))
        self._fds[fd] = (file, [len(file.cached) if flags & os.O_APPEND else 0])
        return fd

    def close(self, fd: int) -> None:
        target, _ = self._fds.pop(fd)  # as on Linux the descriptor is gone, also when the call fails
        if isinstance(target, _File) and target.locked == fd:
            target.locked = None
        self._call("close")

    def lock(self, fd: int) -> None:
        self._call("lock")
        file = self._file(fd)
        if file.locked is not None:
            raise _error(errno.EAGAIN)
        file.locked = fd

    def same(self, fd: int, path: Path) -> bool:
        self._call("same")
        return self._folder.cached.get(path.name) is self._fds[fd][0]

    def size(self, fd: int) -> int:
        self._call("size")
        return len(self._file(fd).cached)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self._call("read")
        return self._file(fd).cached[offset : offset + size]

    def write(self, fd: int, data: bytes | memoryview, offset: int | None) -> int:
        self._call("write")
        file, position = self._file(fd), self._fds[fd][1]
        taken = bytes(data)
        if self._short_writes and len(taken) > 1:
            taken = taken[: self._rng.randint(1, len(taken))]
        at = position[0] if offset is None else offset
        self._change(_Change(file, taken, at))
        if offset is None:
            position[0] += len(taken)
        return len(taken)

    def truncate(self, fd: int, size: int) -> None:
        self._call("truncate")
        file = self._file(fd)
        if size != len(file.cached):
            self._change(_Change(file, size=size))

    def sync(self, fd: int) -> None:
        target = self._fds[fd][0]
        mine = [change for change in self._changes if change.of is target]
        try:
            self._call("sync folder" if isinstance(target, _Folder) else "sync")
        except OSError:
            for change in mine:
                change.abandoned = isinstance(target, _File)  # a folder's entries are the file system's own, and kept
            raise
        for change in mine:
            if not change.abandoned:
                self._changes.remove(change)
                self._settle(change)

    def rename(self, old: Path, new: Path) -> None:
        self._call(f"rename {new.name}")
        file = self._folder.cached[old.name]
        self._change(_Change(self._folder, names={old.name: None, new.name: file}))

    def remove(self, path: Path) -> None:
        self._call(f"remove {path.name}")
        if path.name in self._folder.cached:
            self._change(_Change(self._folder, names={path.name: None}))

    # --- inside ------------------------------------------------------------------------------

    def _call(self, name: str) -> None:
        if self._stop_at is not None and self.calls + 1 >= self._stop_at:
            self.stopped = self.stopped or name
            raise SimulatedCrash(f"before call {self.calls + 1}: {name}")
        self.calls += 1
        self.trace.append(name)
        fault = self._faults.get(self.calls)
        if fault is None and self._broken is not None and self.calls >= self._broken[0]:
            fault = self._broken[1]
        if fault is not None:
            raise _error(fault)

    def _file(self, fd: int) -> _File:
        target = self._fds[fd][0]
        if isinstance(target, _Folder):
            raise _error(errno.EISDIR)
        return target

    def _files(self) -> Iterator[_File]:
        """Every file that is there, or could be after a crash."""
        yield from self._folder.cached.values()
        yield from self._folder.durable.values()
        for change in self._changes:
            if isinstance(change.of, _File):
                yield change.of
            yield from (file for file in change.names.values() if file is not None)

    def _outlived(self, seed: int) -> SimulatedDisk:
        disk = SimulatedDisk(seed=seed)
        disk._folder, disk._changes = copy.deepcopy((self._folder, self._changes))
        for file in disk._files():
            file.locked = None
        return disk

    def _change(self, change: _Change) -> None:
        self._changes.append(change)
        if isinstance(change.of, _File):
            change.of.cached = change.on(change.of.cached)
        else:
            _rename(change.of.cached, change.names)

    def _settle(self, change: _Change) -> None:
        """One change gets to disk. A truncation takes with it what a failed sync left behind its end."""
        if isinstance(change.of, _Folder):
            _rename(change.of.durable, change.names)
            return
        change.of.durable = change.on(change.of.durable)
        if change.size is not None:
            for other in [c for c in self._changes if c.of is change.of and c.abandoned and c.size is None]:
                other.data = other.data[: max(change.size - other.offset, 0)]
                if not other.data:
                    self._changes.remove(other)


def _rename(names: dict[str, _File], changed: dict[str, _File | None]) -> None:
    for name, file in changed.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
