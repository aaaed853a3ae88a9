"""Server-sent events, read strictly. Source: the WHATWG HTML standard, section "Server-sent events"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from apex_framework.errors import BackendError, Failure

LINE_LIMIT: Final = 1_000_000
"""Bytes that one line may have, and one event."""
_END = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """What one blank line ended: the event's name (empty unless it was given) and its data."""

    name: str
    data: str


class EventParser:
    """Turns bytes, however they are cut, into events.

    Comments, and events without data, are none. An event that the stream's end cuts off is dropped, as the standard
    wants. Unlike there, bytes that are no UTF-8 are an error. Raises BackendError (malformed) for those, and for a line
    or an event longer than ``limit`` bytes.
    """

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._waiting = bytearray()
        self._searched = 0
        self._begun = self._after_cr = False
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> list[ServerEvent]:
        """The events that these bytes complete."""
        self._waiting += data
        if not self._begun and not self._strip_bom():
            return []
        found: list[ServerEvent] = []
        start = 0
        if self._after_cr and self._waiting:  # a CRLF that was cut in two
            start = int(self._waiting.startswith(b"\n"))
            self._after_cr = False
        position = max(self._searched, start)
        while match := _END.search(self._waiting, position):
            self._check(match.start() - start)
            event = self._line(bytes(self._waiting[start : match.start()]))
            if event is not None:
                found.append(event)
            start = position = match.end()
            self._after_cr = match[0] == b"\r" and start == len(self._waiting)
        del self._waiting[:start]
        self._searched = len(self._waiting)
        self._check(len(self._waiting))
        return found

    def _strip_bom(self) -> bool:
        """Whether it is known by now that no byte order mark stands, or stands no longer, at the beginning."""
        if len(self._waiting) < len(_BOM) and _BOM.startswith(self._waiting):
            return False
        if self._waiting.startswith(_BOM):
            del self._waiting[: len(_BOM)]
        self._begun = True
        return True

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise BackendError(f"the server sent a line of more than {self._limit:,} bytes", kind=Failure.MALFORMED)

    def _line(self, line: bytes) -> ServerEvent | None:
        if not line:
            event = ServerEvent(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data, self._size = "", [], 0
            return event
        if line.startswith(b":"):
            return None
        try:
            field, _, value = line.decode("utf-8").partition(":")
        except UnicodeDecodeError as error:
            raise BackendError("the server sent bytes that are no UTF-8", kind=Failure.MALFORMED) from error
        value = value.removeprefix(" ")
        if field == "data":
            self._size += len(line)
            self._check(self._size)
            self._data.append(value)
        elif field == "event":
            self._name = value
        return None
