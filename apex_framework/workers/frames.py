"""What goes between a process and its worker: four bytes of length, then so many of JSON. Nothing that can run code."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any, Final

LIMIT: Final = 16 << 20
"""Bytes of one frame."""
_HEAD: Final = 4


class FrameError(ValueError):
    """A frame is too large or cannot be read."""


def encode(frame: dict[str, Any]) -> bytes:
    """A frame as bytes. Raises FrameError."""
    body = json.dumps(frame, separators=(",", ":")).encode()  # ASCII: a lone surrogate in a text passes unharmed
    if len(body) > LIMIT:
        raise FrameError(f"a frame of {len(body):,} bytes, where {LIMIT:,} are allowed")
    return len(body).to_bytes(_HEAD, "big") + body


def decode(body: bytes) -> dict[str, Any]:
    """A frame from its JSON. Raises FrameError."""
    try:
        frame = json.loads(body)
    except ValueError as error:
        raise FrameError("a frame that is no JSON") from error
    if not isinstance(frame, dict):
        raise FrameError("a frame that is no object")
    return frame


def _size(head: bytes) -> int:
    size = int.from_bytes(head, "big")
    if size > LIMIT:
        raise FrameError(f"a frame of {size:,} bytes, where {LIMIT:,} are allowed")
    return size


async def read(stream: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next frame, or None at the end. Raises FrameError, OSError."""
    try:
        return decode(await stream.readexactly(_size(await stream.readexactly(_HEAD))))
    except asyncio.IncompleteReadError:
        return None


class Line:
    """The worker's end: blocking, one thread reads, any may write under the caller's lock."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._file = sock.makefile("rb")

    def read(self) -> dict[str, Any] | None:
        """The next frame, or None at the end. Raises FrameError, OSError."""
        head = self._file.read(_HEAD)
        if len(head) < _HEAD:
            return None
        size = _size(head)
        body = self._file.read(size)
        return decode(body) if len(body) == size else None

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()

    def write(self, frame: dict[str, Any]) -> None:
        """Send a frame. Raises FrameError, OSError."""
        self._socket.sendall(encode(frame))
