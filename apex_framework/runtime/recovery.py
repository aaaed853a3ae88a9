"""The journal's bytes: how a record is written down, and what of a file that a crash left behind is to be trusted.

A file is a header (magic, version, an id of its own), a slot, and records, all numbers big-endian::

    len u32 | kind u8 | epoch u64 | seq u64 | synced u64 | prev_hash 16 bytes | payload, len bytes of JSON | crc32 u32

``seq`` counts from 1. ``prev_hash`` is the BLAKE2b of the whole record before (of the header, for the first), so
that no record can be taken out, changed or moved. ``synced`` is the highest seq that was known to be on disk when the
record was written. It is what tells a crash from damage: a record that a later one declares synced was not torn by
any crash. The slot is written only when a failed write could not be cut off: it says where the file ends.

A record begins with a zero byte, because ``len`` is capped below 2^24, and JSON holds none: no record can be found
inside another's payload.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import JournalError, PayloadError, PayloadTooLargeError

MAGIC: Final = b"APEXJRNL"
VERSION: Final = 1
MAX_RECORD_BYTES: Final = 2**24 - 1
"""Largest payload of one record, in bytes of its JSON form."""

_HEADER = struct.Struct(">8sHH16sI")
_SLOT = struct.Struct(">QI")
_FRAME = struct.Struct(">IBQQQ16s")
_CRC = struct.Struct(">I")
_TO_JSON: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_SECTOR = 512
"""What a disk writes whole or not at all, in bytes."""

SLOT_AT: Final = _HEADER.size
HEADER_BYTES: Final = _HEADER.size + _SLOT.size
NO_SLOT: Final = bytes(_SLOT.size)


@dataclass(frozen=True, slots=True)
class Record:
    """One entry: ``kind`` 1 to 15 is a switch's, 16 to 63 a durable session's, above free; ``seq`` counts from 1."""

    kind: int
    epoch: int
    seq: int
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a file holds: its records, where they end (in bytes), and the hash that the next record carries.

    Records that begin before ``sure`` were on disk when the last one was written.
    """

    records: tuple[Record, ...]
    end: int
    tip: bytes
    sure: int


@dataclass(frozen=True, slots=True)
class _Frame:
    """A record whose checksum is right, before it is known to belong where it stands."""

    kind: int
    epoch: int
    seq: int
    synced: int
    prev_hash: bytes
    payload: bytes
    end: int
    hash: bytes


def new_file(created: bytes) -> bytes:
    """Content of a journal without records; ``created`` is its id, 16 bytes."""
    head = struct.pack(">8sHH16s", MAGIC, VERSION, 0, created)
    return head + _CRC.pack(zlib.crc32(head)) + NO_SLOT


def slot(end: int) -> bytes:
    """What stands in the slot when the file is to end there."""
    number = struct.pack(">Q", end)
    return number + _CRC.pack(zlib.crc32(number))


def to_payload(payload: Mapping[str, Any]) -> bytes:
    """The JSON form. Raises PayloadError, PayloadTooLargeError."""
    try:
        try:
            data = _TO_JSON.encode(payload).encode()
        except UnicodeEncodeError:  # half a surrogate pair: JSON can carry it, UTF-8 cannot
            data = json.dumps(payload, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadError(f"a record's payload has no JSON form: {error}", "keep to JSON values") from error
    if len(data) > MAX_RECORD_BYTES:
        raise PayloadTooLargeError(len(data), MAX_RECORD_BYTES)
    return data


def encode(kind: int, epoch: int, seq: int, synced: int, prev_hash: bytes, payload: bytes) -> bytes:
    """One record. Raises ValueError for a kind or an epoch out of range."""
    if not (1 <= kind <= 255 and 0 <= epoch < 2**64):
        raise ValueError(f"kind {kind} or epoch {epoch} is out of range")
    body = _FRAME.pack(len(payload), kind, epoch, seq, synced, prev_hash) + payload
    return body + _CRC.pack(zlib.crc32(body))


def chained(record: bytes) -> bytes:
    """The hash of a record that the next one carries."""
    return hashlib.blake2b(record, digest_size=16).digest()


def recover(data: bytes, path: object) -> Recovered:
    """Read a journal's content up to where it can be trusted; what is behind that is the crash's, to be cut.

    Raises JournalError, which names path, position and remedy, when no crash explains what is wrong.
    """
    _check_header(data, path)
    limit = _limit(data)
    data = data[:limit]
    tip = chained(data[: _HEADER.size])
    records: list[Record] = []
    at = HEADER_BYTES
    ends = [at]
    synced = 0
    while (frame := _frame_at(data, at)) is not None and _follows(frame, len(records), tip):
        records.append(_record(frame, path, at))
        at, tip, synced = frame.end, frame.hash, frame.synced
        ends.append(at)
    if at < len(data):
        _require_crash(data, at, len(records) + 1, path)
    return Recovered(tuple(records), at, tip, ends[min(synced, len(records))])


def _check_header(data: bytes, path: object) -> None:
    if not data:
        raise JournalError(f"{path} is empty: not a journal", "remove it, or name another file")
    if not data.startswith(MAGIC):
        raise JournalError(f"{path} is not a journal: at byte 0 it does not begin as one", "name another file")
    if len(data) < HEADER_BYTES:
        raise JournalError(f"{path} is damaged: it ends at byte {len(data)}, inside its header", "restore a copy of it")
    _, version, _, _, crc = _HEADER.unpack_from(data)
    if crc != zlib.crc32(data[: _HEADER.size - _CRC.size]):
        raise JournalError(f"{path} is damaged at byte 0: its header has a wrong checksum", "restore a copy of it")
    if version != VERSION:
        raise JournalError(
            f"{path} is a journal of version {version}, not {VERSION}",
            "use the apex that made it, or name another file",
        )


def _limit(data: bytes) -> int:
    """Where the slot says that the file ends. A torn slot says nothing: its writer died before it gave an answer."""
    end, crc = _SLOT.unpack_from(data, SLOT_AT)
    valid = crc == zlib.crc32(data[SLOT_AT : SLOT_AT + 8]) and HEADER_BYTES <= end <= len(data)
    return end if valid else len(data)


def _frame_at(data: bytes, at: int) -> _Frame | None:
    if at + _FRAME.size + _CRC.size > len(data):
        return None
    length, kind, epoch, seq, synced, prev_hash = _FRAME.unpack_from(data, at)
    end = at + _FRAME.size + length + _CRC.size
    if length > MAX_RECORD_BYTES or not kind or end > len(data):
        return None
    body = data[at : end - _CRC.size]
    if zlib.crc32(body) != _CRC.unpack_from(data, end - _CRC.size)[0]:
        return None
    return _Frame(kind, epoch, seq, synced, prev_hash, body[_FRAME.size :], end, chained(data[at:end]))


def _follows(frame: _Frame, seq: int, tip: bytes) -> bool:
    return frame.seq == seq + 1 and frame.prev_hash == tip


def _record(frame: _Frame, path: object, at: int) -> Record:
    try:
        payload = json.loads(frame.payload)
    except (ValueError, RecursionError) as error:
        payload = error
    if not isinstance(payload, dict):
        raise JournalError(
            f"{path} is damaged at byte {at}: record {frame.seq} is whole and no JSON object", "restore a copy of it"
        )
    return Record(frame.kind, frame.epoch, frame.seq, payload)


def _require_crash(data: bytes, at: int, seq: int, path: object) -> None:
    """Raises JournalError unless what stands at ``at``, where record ``seq`` is due, can come from a crash.

    A crash leaves out whole writes or parts of them, in any order, of what was not synced. So no record behind the gap
    may declare ``seq`` synced; and where one is behind it at all, the gap must look like a write that
    never arrived: zeros up to the end of a sector, or up to the next record.
    """
    first: int | None = None
    for place, frame in _frames_behind(data, at, seq):
        if frame.synced >= seq:
            raise JournalError(
                f"{path} is damaged at byte {at}: record {seq} is unreadable, and record {frame.seq} "
                f"at byte {place} says that it was on disk",
                "restore a copy of it; nothing was changed",
            )
        first = place if first is None else first
    if first is not None and not _never_arrived(data, at, first):
        raise JournalError(
            f"{path} is damaged at byte {at}: record {seq} is unreadable, and a valid record is at byte {first}",
            "restore a copy of it; nothing was changed",
        )


def _frames_behind(data: bytes, at: int, seq: int) -> Iterator[tuple[int, _Frame]]:
    """Records with a right checksum behind ``at`` that are not older than ``seq``."""
    last = seq + (len(data) - at) // (_FRAME.size + _CRC.size)
    stop = len(data.rstrip(b"\0"))
    while 0 <= (at := data.find(b"\0", at)) < stop:
        if at + _FRAME.size > len(data):
            return
        if seq <= _FRAME.unpack_from(data, at)[3] <= last and (frame := _frame_at(data, at)) is not None:
            yield at, frame
            at = frame.end
        else:
            at += 1


def _never_arrived(data: bytes, start: int, stop: int) -> bool:
    boundaries = range(start - start % _SECTOR + _SECTOR, stop, _SECTOR)
    return stop > start and any(data[end - 1] == 0 for end in (*boundaries, stop))
