"""JSON-RPC on lines, bounded: what is too long, too deep or no JSON is an answerable error, never a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import mcp_types as types
from mcp.shared.message import SessionMessage

LINE_BYTES: Final = 4 * 1024**2
"""Longest line that is read, as long as the SDK's largest HTTP body."""
CHUNK: Final = 1 << 16


class Lines:
    """Cuts a stream of bytes into lines; of one longer than ``limit`` nothing is kept but that it was there."""

    def __init__(self, limit: int = LINE_BYTES) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Complete lines without their ends; None for one that was too long."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._take(data[start:end])
            start = end + 1
            yield None if self._skipping else bytes(self._rest)
            self._rest.clear()
            self._skipping = False
        self._take(data[start:])

    @property
    def too_long(self) -> bool:
        """Whether the line that has not ended yet is already too long."""
        return self._skipping

    def _take(self, piece: bytes) -> None:
        if self._skipping:
            return
        if len(self._rest) + len(piece) > self._limit:
            self._skipping = True
            self._rest.clear()
        else:
            self._rest += piece


class Unreadable(ValueError):
    """A line that is no JSON-RPC message; ``code`` and ``id`` are those of the error that answers it."""

    def __init__(self, code: int, cause: str, id: str | int | None = None) -> None:
        super().__init__(cause)
        self.code, self.cause, self.id = code, cause, id

    def answer(self) -> SessionMessage:
        """The JSON-RPC error for the sender."""
        error = types.ErrorData(code=self.code, message=self.cause)
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=self.id, error=error))


def parse(line: bytes | None) -> SessionMessage:
    """The message of a line. Raises Unreadable."""
    if line is None:
        raise Unreadable(types.INVALID_REQUEST, f"a line longer than {LINE_BYTES:,} bytes")
    try:
        value: Any = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Unreadable(types.PARSE_ERROR, f"not JSON: {type(error).__name__}") from None
    if isinstance(value, dict) and _impossible(value.get("id")):
        raise Unreadable(types.INVALID_REQUEST, "an id is a text or a whole number")
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_python(value, by_name=False))
    except (ValueError, RecursionError):
        known = value.get("id") if isinstance(value, dict) else None
        raise Unreadable(types.INVALID_REQUEST, "not a JSON-RPC 2.0 message", known) from None


def write(message: SessionMessage) -> bytes:
    """A message as a line."""
    return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _impossible(id: object) -> bool:
    return id is not None and (isinstance(id, bool) or not isinstance(id, str | int) or len(str(id)) > 256)
