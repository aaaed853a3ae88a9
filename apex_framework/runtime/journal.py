"""The journal: an append-only file of records that a crash, at any moment, can shorten only where nobody was told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn

from ..errors import JournalError
from ..interfaces.message import AgentID, Epoch
from ..interfaces.topology import Member, Roster
from ..ports import Effects, Files, LogFile, RealEffects, SystemFiles, unique
from .recovery import HEADER_BYTES, NO_SLOT, SLOT_AT, Record, chained, encode, new_file, recover, slot, to_payload
from .switchlog import SwitchRecord

INTENT: Final = 1
COMMIT: Final = 2
ABORT: Final = 3
"""Kinds of records that a switch writes."""

__all__ = ["ABORT", "COMMIT", "INTENT", "Journal", "JournalSwitchLog", "Record", "SwitchState", "recovered_switch"]


class Journal:
    """An open journal; nobody else can have the file open. A context manager.

    ``append`` writes, ``sync`` and ``durable`` put on disk. A record is acknowledged when one of the two returns
    after it: then every later opening finds it. The first failure ends all writing: what was not
    acknowledged is cut off again, and the error's ``in_doubt`` tells when that failed too.
    """

    def __init__(self, path: Path, log: LogFile, *, effects: Effects, sync_cost_s: float) -> None:
        self.path = path
        self._log = log
        self._effects = effects
        self._sync_cost_s = sync_cost_s
        data = log.read(log.size(), 0)
        found = recover(data, path)
        self.records: tuple[Record, ...] = found.records
        """What was there when it was opened."""
        self.cut = len(data) - found.end
        """Bytes of unacknowledged records that the opening cut off."""
        self._tip = found.tip
        self._end = (len(found.records), found.end)
        if self.cut:
            log.truncate(found.end)
        # What a killed process wrote can be read and may yet not be on disk; where a sync failed under it, no
        # later one would put it there, unless it is written again.
        log.write(data[found.sure : found.end], found.sure)
        log.sync()
        if data[SLOT_AT:HEADER_BYTES] != NO_SLOT:
            log.write(NO_SLOT, SLOT_AT)
            log.sync()
        self._durable = self._end
        self._failure: JournalError | None = None
        self._closed = False
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._round: asyncio.Event | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        files: Files | None = None,
        effects: Effects | None = None,
        sync_cost_s: float = 0.003,
    ) -> Journal:
        """Open a journal, or make one where there is none; its folder must be there.

        What a crash left behind the last whole record is cut off, durably. ``effects`` runs the syncs of
        ``durable``, by default in a thread; each takes ``sync_cost_s`` seconds of virtual time.

        Raises JournalError: the file is damaged, foreign, of another version, in use, or cannot be written.
        """
        try:
            log = (files or SystemFiles()).log(path, new=new_file(unique(16)))
        except BlockingIOError as error:
            raise JournalError(f"{path} is in use", "close the journal that has it open, or end its process") from error
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            return cls(path, log, effects=effects or RealEffects(), sync_cost_s=sync_cost_s)
        except OSError as error:
            log.close()
            raise _unusable(path, error) from error
        except BaseException:
            log.close()
            raise

    @property
    def last(self) -> int:
        """Seq of the last record that was appended; 0 before the first."""
        return self._end[0]

    @property
    def size(self) -> int:
        """Where that record ends in the file, in bytes."""
        return self._end[1]

    def append(self, kind: int, epoch: int, payload: Mapping[str, Any]) -> int:
        """Write one record and return its seq; it is on disk only after ``sync`` or ``durable``.

        ``kind`` is 1 to 255, ``payload`` JSON values. Raises JournalError when the journal failed or is closed;
        PayloadError and PayloadTooLargeError, and then it goes on, when the payload is none.
        """
        body = to_payload(payload)
        with self._writing:
            self._require_usable()
            seq, end = self._end
            data = encode(kind, epoch, seq + 1, self._durable[0], self._tip, body)
            try:
                self._log.write(data, end)
                self._tip, self._end = chained(data), (seq + 1, end + len(data))
            except BaseException as error:  # noqa: BLE001 - whatever it is, also an interrupt, raises again
                self._fail(error)
            return seq + 1

    def sync(self) -> None:
        """Return when every record appended so far is on disk. Raises JournalError; the journal is then at its end."""
        with self._syncing:
            self._require_usable()
            end = self._end
            if end == self._durable:
                return
            failure: BaseException | None = None
            try:
                self._log.sync()
            except BaseException as error:  # noqa: BLE001 - whatever it is, also an interrupt, raises again
                failure = error
            with self._writing:
                self._require_usable()  # an append failed meanwhile, and cut off what was synced here
                if failure is not None:
                    self._fail(failure)
                self._durable = end

    async def durable(self, seq: int) -> None:
        """Return when record ``seq`` is on disk; all who wait at the same time share one sync.

        Raises JournalError when the journal fails before that, ValueError for a record that was not appended.
        """
        if not 0 <= seq <= self._end[0]:
            raise ValueError(f"record {seq} was not appended")
        while seq > self._durable[0]:
            self._require_usable()
            if self._round is not None:
                await self._round.wait()
                continue
            self._round = asyncio.Event()
            try:
                await asyncio.sleep(0)  # those who append in this turn of the loop come along
                await self._effects.run(self.sync, cost=lambda _: self._sync_cost_s)
            finally:
                self._round.set()
                self._round = None

    def close(self) -> None:
        """Put what was appended on disk and give the file free; idempotent. Raises JournalError when that failed."""
        if self._closed:
            return
        try:
            if self._failure is None:
                self.sync()
        finally:
            with self._syncing, self._writing:  # a thread may still be in a sync of this descriptor
                self._closed = True
                self._log.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_usable(self) -> None:
        if self._failure is not None:
            raise JournalError(self._failure.cause, self._failure.remedy, in_doubt=self._failure.in_doubt)
        if self._closed:
            raise JournalError(f"{self.path} is closed", "open it again")

    def _fail(self, error: BaseException) -> NoReturn:
        """End all writing, cut off what was not acknowledged, and raise; called with ``_writing`` held."""
        cause = f"cannot write to {self.path}: {error.strerror if isinstance(error, OSError) else repr(error)}"
        remedy = "free the disk, then open it again"
        doubt = f"{cause}; whether its last records count shows when it is opened again"
        self._failure = JournalError(doubt, remedy, in_doubt=True)
        if self._undone():
            self._failure = JournalError(cause, remedy)
        if isinstance(error, OSError):
            raise self._failure from error
        raise error

    def _undone(self) -> bool:
        """Whether what was not acknowledged can never be read again: it is cut off, or the slot tells to."""
        end = self._durable[1]
        try:
            self._log.truncate(end)
            self._log.sync()
        except OSError:
            try:
                self._log.write(slot(end), SLOT_AT)
                self._log.sync()
            except OSError:
                return False
        return True


def _unusable(path: Path, error: OSError) -> JournalError:
    return JournalError(
        f"cannot use {path} as a journal: {error.strerror}", "name a file in a local folder that can be written"
    )


@dataclass(frozen=True, slots=True)
class SwitchState:
    """What was in force when the last switch committed."""

    epoch: Epoch
    topology: str
    roster: Roster


class JournalSwitchLog:
    """Keeps switches in a journal; see SwitchLog. A switch costs one sync, in ``commit``."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def intent(self, record: SwitchRecord) -> None:
        """A switch begins; not synced, because a switch without COMMIT never happened."""
        self._journal.append(INTENT, record.epoch, _form(record))

    def commit(self, record: SwitchRecord) -> None:
        """The commit point. Raises JournalError; the record cannot be read then unless the error is ``in_doubt``."""
        self._journal.append(COMMIT, record.epoch, _form(record))
        self._journal.sync()

    def abort(self, record: SwitchRecord, reason: str) -> None:
        """How a switch ended; not synced."""
        self._journal.append(ABORT, record.epoch, {**_form(record), "reason": reason})


def _form(record: SwitchRecord) -> dict[str, Any]:
    return {"origin": record.origin, "target": record.target, "roster": asdict(record.roster)}


def recovered_switch(records: Sequence[Record]) -> SwitchState | None:
    """Where a journal's last committed switch led; None when none committed.

    What has no COMMIT is rolled back by being ignored. Raises JournalError for a COMMIT in another form.
    """
    for record in reversed(records):
        if record.kind == COMMIT:
            return _state(record)
    return None


def _state(record: Record) -> SwitchState:
    try:
        roster = record.payload["roster"]
        members = tuple(Member(AgentID(m["id"]), m["role"]) for m in roster["members"])
        return SwitchState(Epoch(record.epoch), record.payload["target"], Roster(members, AgentID(roster["lead"])))
    except (KeyError, TypeError) as error:
        raise JournalError(
            f"record {record.seq} is no COMMIT of a switch: {error!r}", "use the apex that wrote it"
        ) from error
