"""The ledger's log: its entries as lines of JSON, one file, which rebuilds the ledger after the process is gone.

The first line names the format's version; each line carries its number and a CRC-32 of what stands before it. A last
line without an end, or with the zeros that a lost block leaves, was being written when the machine stopped: it is
cut off. Anything else that does not fit is damage, and refused: a ledger that has forgotten would overspend.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, Final

from ..errors import BudgetStoreError, LedgerError
from ..interfaces.budget import Limits
from ..ports import Files, LogFile, SystemFiles
from .entries import Entry, Expired, Leased, Opened, Renewed, Reservation, Reserved, ScopeInstance, Settled
from .ledger import FOREVER, Ledger

VERSION: Final = 1
_CRC_BYTES = len(',"crc":"00000000"}')
_REMEDY = "restore the file from a backup; removing it forgets everything that was spent"


def open_ledger(path: Path, *, ttl_ms: int = 10_000, sync: bool = False, files: Files | None = None) -> Ledger:
    """The ledger kept in a file, which is made when it is not there; no second opener can have it. ``close`` it.

    Reservations that the last process left open are debited in full: their holders are gone. With ``sync`` every
    entry is on disk before it takes effect, and so survives a loss of power; without, it survives the end of the process.
    Raises BudgetStoreError for a file that is damaged, of another version, in use, or cannot be written.
    """
    log = LedgerLog.open(path, sync=sync, files=files or SystemFiles())
    ledger = Ledger(ttl_ms=ttl_ms)
    try:
        ledger.rebuild(log.found, log)
        ledger.expire(FOREVER)
    except LedgerError as error:
        log.close()
        raise BudgetStoreError(f"{path}: {error}", _REMEDY, reason="store_damaged") from error
    except BaseException:
        log.close()
        raise
    if ledger.blocked:
        log.close()
        raise BudgetStoreError(f"{path} cannot be written", "free some space", reason=ledger.blocked)
    return ledger


class LedgerLog:
    """An open log. ``found`` holds the entries that were there, ``cut`` the bytes of an unfinished line that were not kept."""

    def __init__(self, path: Path, file: LogFile, *, sync: bool) -> None:
        self._path = path
        self._file = file
        self._sync = sync
        data = file.read(file.size(), 0)
        self.found, self._end = parse(data, path)
        self.cut = len(data) - self._end
        self._next = len(self.found) + 1
        if self.cut:
            file.truncate(self._end)
            file.sync()

    @classmethod
    def open(cls, path: Path, *, sync: bool, files: Files) -> LedgerLog:
        """Open or make a log. Raises BudgetStoreError."""
        try:
            file = files.log(path, new=_HEADER)
        except BlockingIOError as error:
            raise _refused(path, "is in use by another process", "store_locked") from error
        except OSError as error:
            raise _refused(path, f"cannot be opened: {error.strerror}", "store_unwritable") from error
        try:
            return cls(path, file, sync=sync)
        except OSError as error:
            file.close()
            raise _refused(path, f"cannot be read: {error.strerror}", "store_unwritable") from error
        except BaseException:
            file.close()
            raise

    def append(self, entry: Entry) -> None:
        """Write an entry; on disk on return when the log is opened with ``sync``. Raises BudgetStoreError."""
        line = encode(self._next, entry)
        try:
            self._file.write(line, self._end)
            if self._sync:
                self._file.sync()
        except OSError as error:
            raise _refused(self._path, f"cannot be written: {error.strerror}", "store_unwritable") from error
        self._end += len(line)
        self._next += 1

    def close(self) -> None:
        """Give the file free; idempotent."""
        self._file.close()


def encode(number: int, entry: Entry) -> bytes:
    """An entry as a line."""
    match entry:
        case Opened(scope):
            limits = scope.limits
            body: dict[str, Any] = {
                "scope": scope.name,
                "key": scope.key,
                "tokens": limits.tokens,
                "ms": limits.ms,
                "parent": scope.parent,
            }
        case Leased(scope_id, tokens):
            body = {"scope": scope_id, "tokens": tokens}
        case Reserved(r):
            body = {"id": r.id, "scopes": r.scopes, "tokens": r.tokens, "ms": r.ms, "expires_ms": r.expires_ms}
        case Renewed(reservation_id, expires_ms):
            body = {"id": reservation_id, "expires_ms": expires_ms}
        case Expired(reservation_id):
            body = {"id": reservation_id}
        case Settled(reservation_id, tokens, ms):
            body = {"id": reservation_id, "tokens": tokens, "ms": ms}
    return _line({"n": number, "kind": type(entry).__name__.lower(), **body})


def parse(data: bytes, path: Path) -> tuple[tuple[Entry, ...], int]:
    """Entries of a log's bytes, and where they end; what follows is an unfinished line. Raises BudgetStoreError."""
    entries: list[Entry] = []
    end = number = 0
    while end < len(data):
        stop = data.find(b"\n", end)
        line = data[end:] if stop < 0 else data[end:stop]
        values = _values(line) if stop >= 0 else None
        if values is None:
            torn = stop < 0 or (b"\0" in line and not data[stop + 1 :].strip(b"\0"))
            if number and torn:
                break
            raise _refused(path, f"is damaged in line {number + 1}", "store_damaged", _REMEDY)
        if not number:
            if values.get("apex_ledger") != VERSION:
                raise _refused(path, f"has version {values.get('apex_ledger')!r}, not {VERSION}", "store_version")
        else:
            try:
                if values["n"] != number:
                    raise ValueError
                entries.append(_entry(values))
            except (KeyError, TypeError, ValueError):
                raise _refused(path, f"is damaged in line {number + 1}", "store_damaged", _REMEDY) from None
        end = stop + 1
        number += 1
    if not number:
        raise _refused(path, "is empty", "store_damaged", _REMEDY)
    return tuple(entries), end


def _entry(v: dict[str, Any]) -> Entry:
    match v["kind"]:
        case "opened":
            return Opened(ScopeInstance(v["scope"], v["key"], Limits(v["tokens"], v["ms"]), v["parent"]))
        case "leased":
            return Leased(v["scope"], v["tokens"])
        case "reserved":
            return Reserved(Reservation(v["id"], tuple(v["scopes"]), v["tokens"], v["ms"], v["expires_ms"]))
        case "renewed":
            return Renewed(v["id"], v["expires_ms"])
        case "expired":
            return Expired(v["id"])
        case "settled":
            return Settled(v["id"], v["tokens"], v["ms"])
    raise ValueError(v["kind"])


def _line(values: dict[str, Any]) -> bytes:
    body = json.dumps(values, separators=(",", ":"))[:-1].encode()
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


def _values(line: bytes) -> dict[str, Any] | None:
    body, tail = line[:-_CRC_BYTES], line[-_CRC_BYTES:]
    if tail != b',"crc":"%08x"}' % zlib.crc32(body):
        return None
    values: dict[str, Any] = json.loads(body + b"}")
    return values


def _refused(path: Path, what: str, reason: str, remedy: str = "") -> BudgetStoreError:
    return BudgetStoreError(f"the ledger {path} {what}", remedy, reason=reason)


_HEADER: Final = _line({"apex_ledger": VERSION})
