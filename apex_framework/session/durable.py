"""The durable log: a session's journal, the state that it amounts to, and what waits for it to be on disk."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import JournalError, PayloadError
from ..interfaces import Epoch, Roster
from ..ports import Effects, Files, SystemFiles
from ..runtime.journal import COMMIT, Journal, JournalSwitchLog, Record, recovered_switch
from ..runtime.switchlog import SwitchRecord
from .compaction import compacted
from .records import FORM, Kind
from .state import State

log = logging.getLogger(__name__)

COMPACT_BYTES = 16 * 2**20
"""A journal is rewritten when it has grown by so many bytes, and by as many as its copy had."""


@dataclass(frozen=True, slots=True)
class InDoubt:
    """A tool call of which a crash, or a limit, left open whether it had its effect; it was not made again."""

    agent_id: str
    msg_id: str
    tool: str
    arguments: Any


class DurableLog:
    """Makes a session durable: ``Session(..., durable=DurableLog.open(path))``. A context manager.

    ``run`` then starts the session, or goes on where the journal ends: after a crash at any moment no admitted message
    is lost, no finished step is repeated, and order holds between every two agents. Nothing that a step
    sends can be seen by anybody before the step's record is on disk; a step that a crash cut is run again, from the
    agent's state before it, with ``redelivered`` set.
    """

    def __init__(
        self, path: Path, files: Files, effects: Effects | None, sync_cost_s: float, compact_bytes: int
    ) -> None:
        self.path = path
        self._files, self._effects, self._sync_cost_s = files, effects, sync_cost_s
        self._compact_bytes = compact_bytes
        self._journal = self._open()
        try:
            self.state = _replayed(path, self._journal.records)
            switch = recovered_switch(self._journal.records)
        except BaseException:
            self._journal.close()
            raise
        self.cut = self._journal.cut
        """Bytes of a torn tail, never acknowledged, that the opening cut off."""
        if self.cut:
            log.warning("%s ended in a record that a crash cut: %d bytes were cut off", path, self.cut)
        self.topology = switch.topology if switch is not None else ""
        """Name of the topology in force when the journal ends; empty when the session never switched."""
        self.epoch = switch.epoch if switch is not None else Epoch(0)
        """The epoch in force."""
        self.switches = Switches(self)
        """For ``SwitchEngine(log=...)``: commits of switches go into the same journal."""
        self.compactions = 0
        self.failure: BaseException | None = None
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        self.before_write: Callable[[], None] = lambda: None
        """Called before every record."""
        self._waiting: deque[tuple[Journal | None, int, Callable[[], None]]] = deque()
        """(journal, record, release) in the order of the records; None: it is on disk."""
        self._more: asyncio.Event | None = None
        self._base = self._journal.size

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        files: Files | None = None,
        effects: Effects | None = None,
        sync_cost_s: float = 0.003,
        compact_bytes: int = COMPACT_BYTES,
    ) -> DurableLog:
        """Open a session's journal, or begin one where there is none; its folder must be there.

        Raises JournalError: the file is damaged, no session's, of another version, in use, or cannot be written.
        """
        return cls(Path(path), files or SystemFiles(), effects, sync_cost_s, compact_bytes)

    @property
    def in_doubt(self) -> tuple[InDoubt, ...]:
        """Calls of which nobody knows whether they had their effect, in all lives of the session."""
        return tuple(InDoubt(**doubt) for doubt in self.state.doubts)

    @property
    def begun(self) -> bool:
        """Whether there is a session to go on with."""
        return self.state.begun is not None

    @property
    def roster(self) -> Roster | None:
        """The team in force when the journal ends; None for a new one."""
        return self.state.roster

    @property
    def last(self) -> int:
        """The last record."""
        return self._journal.last

    def close(self) -> None:
        """Give the journal free; idempotent."""
        self._journal.close()

    def __enter__(self) -> DurableLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- for the session ------------------------------------------------------------------------

    def write(self, kind: Kind, payload: dict[str, Any]) -> int:
        """Append a record and apply it; on disk only later. Raises JournalError, and PayloadError for no JSON."""
        self.before_write()
        if self._journal.size - self._base > max(self._compact_bytes, self._base):
            self.compact()
        try:
            seq = self._journal.append(kind, self.epoch, payload)
        except PayloadError:
            raise  # nothing was written, and the journal goes on
        except BaseException as error:
            self._failed(error)
            raise
        self.state.apply(kind, payload)
        return seq

    def then(self, seq: int, release: Callable[[], None]) -> None:
        """Call ``release`` once record ``seq`` is on disk; in the order of the calls."""
        self._waiting.append((self._journal, seq, release))
        if self._more is not None:
            self._more.set()

    async def barrier(self) -> None:
        """Return when everything written so far is on disk. Raises JournalError."""
        journal = self._journal
        await self._on_disk(journal, journal.last)

    async def room(self, most: int) -> None:
        """Return when at most so many releases wait."""
        while len(self._waiting) > most:
            await self._first(0)

    async def serve(self) -> None:
        """Sync for those who wait, all together, and release them; until cancelled."""
        self._more = asyncio.Event()
        while True:
            if not self._waiting:
                self._more.clear()
                await self._more.wait()
            await self._first(-1)

    async def _first(self, index: int) -> None:
        """Release everything up to there once it is on disk."""
        journal, seq, _ = self._waiting[index]
        if journal is not None:
            await self._on_disk(journal, seq)
        self._release(journal, seq)

    def compact(self) -> None:
        """Rewrite the journal as a copy of the state: the old file or the new one, whatever happens meanwhile.

        Blocks for as long as that takes. Raises JournalError.
        """
        try:
            self._journal.sync()
            data = compacted(self.state, self.switches.latest or recovered_switch(self._journal.records))
            self._files.replace(self.path, data)
            self._journal.close()
            self._journal = self._open()
        except OSError as error:
            failure = _unwritable(self.path, error)
            self._failed(failure)
            raise failure from error
        except BaseException as error:
            self._failed(error)
            raise
        self._base = self._journal.size
        self.compactions += 1
        self._waiting = deque((None, 0, release) for _, _, release in self._waiting)

    def _open(self) -> Journal:
        return Journal.open(self.path, files=self._files, effects=self._effects, sync_cost_s=self._sync_cost_s)

    async def _on_disk(self, journal: Journal, seq: int) -> None:
        try:
            await journal.durable(seq)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if journal is not self._journal and self.failure is None:
                return  # replaced meanwhile by a copy that has it
            self._failed(error)
            raise

    def _release(self, journal: Journal | None, seq: int) -> None:
        while self._waiting:
            where, number, release = self._waiting[0]
            if where is not None and (where is not journal or number > seq):
                return
            self._waiting.popleft()
            release()

    def _failed(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            self.on_failure(error)


class Switches:
    """The switch log of a durable session: it writes to the journal that is in use."""

    def __init__(self, log: DurableLog) -> None:
        self._log = log
        self.latest: SwitchRecord | None = None

    def intent(self, record: SwitchRecord) -> None:
        self._log.before_write()
        JournalSwitchLog(self._log._journal).intent(record)

    def commit(self, record: SwitchRecord) -> None:
        self._log.before_write()
        JournalSwitchLog(self._log._journal).commit(record)
        self.latest, self._log.epoch, self._log.topology = record, record.epoch, record.target
        roster = record.roster
        members = [{"id": m.id, "role": m.role} for m in roster.members]
        self._log.state.apply(COMMIT, {"roster": {"members": members, "lead": roster.lead}})

    def abort(self, record: SwitchRecord, reason: str) -> None:
        self._log.before_write()
        JournalSwitchLog(self._log._journal).abort(record, reason)


def _replayed(path: Path, records: Sequence[Record]) -> State:
    """The state that records amount to. Raises JournalError when they are no session's."""
    state = State()
    for record in records:
        if record.kind in set(Kind):
            begins = record.payload.get("begun", record.payload) if state.begun is None else {"form": FORM}
            if begins.get("form") != FORM:
                form = begins.get("form")
                cause = f"is of form {form}, not {FORM}" if form else "does not begin as a session's journal"
                raise JournalError(f"{path} {cause}", "use the apex that wrote it, or name another file")
        try:
            state.apply(record.kind, record.payload)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise JournalError(
                f"{path}: record {record.seq} is none of a session: {error!r}", "use the apex that wrote it"
            ) from error
    return state


def _unwritable(path: Path, error: OSError) -> JournalError:
    return JournalError(f"cannot rewrite {path}: {error.strerror}", "free the disk, then open it again")
