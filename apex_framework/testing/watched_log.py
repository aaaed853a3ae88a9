"""The switch log of a simulated life, on a disk that fills up, fails, and stops."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import JournalError
from ..runtime.journal import JournalSwitchLog, SwitchState
from ..runtime.switchlog import SwitchRecord
from .disk import SimulatedCrash, SimulatedDisk

if TYPE_CHECKING:
    from .world import World


class WatchedLog:
    """The switch log of a world: the model hears of every COMMIT, and the disk fails when faults say so."""

    def __init__(self, world: World, inner: JournalSwitchLog, disk: SimulatedDisk) -> None:
        self._world, self._inner, self._disk = world, inner, disk
        self._open: SwitchRecord | None = None

    def intent(self, record: SwitchRecord) -> None:
        """Raises OSError (ENOSPC), JournalError."""
        world, faults = self._world, self._world.faults
        if self._open is not None:
            world.blame("one_switch", f"a switch to {record.target} begins before that to {self._open.target} ended")
        if faults.strikes("disk_full", 0.1):
            self._break(errno.ENOSPC)
        elif faults.strikes("disk_error", 0.1):
            self._break(errno.EIO)
        elif faults.strikes("crash_io", 0.1):
            self._disk.stop_at(world.rng.randint(1, 4))
        self._write(self._inner.intent, record)
        self._open = record
        world.model.hasten(float("inf"))

    def _break(self, error: int) -> None:
        """Most often the disk has recovered when a switch is tried again; now and then it fails under the journal."""
        if self._world.rng.random() < 0.7:
            raise OSError(error, os.strerror(error))
        self._disk.fail_at(self._world.rng.randint(1, 4), error, forever=self._world.rng.random() < 0.5)

    def _write(self, write: Callable[[SwitchRecord], None], record: SwitchRecord) -> None:
        try:
            write(record)
        except SimulatedCrash:
            self._world.died()
            raise

    def commit(self, record: SwitchRecord) -> None:
        """Raises OSError (EIO), JournalError."""
        world = self._world
        state = SwitchState(record.epoch, record.target, record.roster)
        if world.alive:
            world.in_doubt = state
        try:
            self._write(self._inner.commit, record)
        except JournalError as error:
            if world.alive and not error.in_doubt:
                world.in_doubt = None
            raise
        if not world.alive:
            return
        world.in_doubt = None
        world.committed = state
        self._ended()
        world.model.committed(record.roster, world.parts.topologies[record.target], record.epoch)
        world._since_commit = 0

    def abort(self, record: SwitchRecord, reason: str) -> None:
        """Raises JournalError."""
        self._ended()
        self._write(lambda ended: self._inner.abort(ended, reason), record)

    def _ended(self) -> None:
        world = self._world
        self._open = None
        world._since_attempt = 0
        world._attempted = True
        world.model.hasten(world.clock.monotonic())
