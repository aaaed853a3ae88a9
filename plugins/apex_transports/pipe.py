"""Pipe transport: frames with a four-byte length over a socket pair, whose ends may be in two processes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

from apex_framework.errors import CarrierClosedError
from apex_framework.interfaces import Carrier

from .json_codec import MAX_FRAME_BYTES, JsonCodec

_LENGTH = struct.Struct("!I")


class SocketCarrier:
    """One end of a connected stream socket."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._sending = asyncio.Lock()
        self._receiving = asyncio.Lock()
        self._buffer = bytearray()
        self._closed = asyncio.Event()

    def detach(self) -> int:
        """Give the descriptor away, to be adopted in another process; this carrier is closed then."""
        self._closed.set()
        return self._end.detach()

    @classmethod
    def adopt(cls, fileno: int) -> SocketCarrier:
        """The end whose descriptor this process has got."""
        return cls(socket.socket(fileno=fileno))

    async def send(self, frame: bytes) -> None:
        """Whole or not at all as far as the receiver can tell. Raises CarrierClosedError."""
        if len(frame) > MAX_FRAME_BYTES:
            raise ValueError(f"frame of {len(frame):,} bytes exceeds {MAX_FRAME_BYTES:,}")
        async with self._sending:
            self._check()
            try:
                await asyncio.get_running_loop().sock_sendall(self._end, _LENGTH.pack(len(frame)) + frame)
            except asyncio.CancelledError:
                # Part of the frame may be out: nothing behind it could be understood any more.
                await self.close()
                raise
            except OSError as error:
                raise CarrierClosedError(f"the other end is gone: {error}") from None

    async def receive(self) -> bytes:
        """The next frame. Raises CarrierClosedError at the end of the stream or at a frame longer than allowed."""
        async with self._receiving:
            try:
                await self._fill(_LENGTH.size)
                (length,) = _LENGTH.unpack_from(self._buffer)
                if length > MAX_FRAME_BYTES:
                    await self.close()
                    raise CarrierClosedError(f"frame of {length:,} bytes announced, {MAX_FRAME_BYTES:,} allowed")
                await self._fill(_LENGTH.size + length)
            finally:
                if self._closed.is_set():
                    self._end.close()
            frame = bytes(self._buffer[_LENGTH.size : _LENGTH.size + length])
            del self._buffer[: _LENGTH.size + length]
            return frame

    async def close(self) -> None:
        """Close this end; the other end's receive ends too."""
        if not self._closed.is_set():
            self._closed.set()
            with contextlib.suppress(OSError):  # the other end was faster
                self._end.shutdown(socket.SHUT_RDWR)
            # A receive that waits on this descriptor sees the end of the stream first, and closes it.
            if not self._receiving.locked():
                self._end.close()

    def _check(self) -> None:
        if self._closed.is_set():
            raise CarrierClosedError("the carrier is closed")

    async def _fill(self, size: int) -> None:
        """Read until the buffer holds ``size`` bytes; a cancelled read loses nothing."""
        self._check()
        while len(self._buffer) < size:
            try:
                data = await asyncio.get_running_loop().sock_recv(self._end, 65536)
            except OSError as error:
                data, cause = b"", str(error)
            else:
                cause = "end of stream"
            if not data:
                raise CarrierClosedError(f"the other end is gone: {cause}")
            self._buffer += data


class Pipe:
    """Two ends of a socket pair."""

    name = "pipe"
    local = False
    fallback: tuple[str, ...] = ("inproc",)

    def __init__(self) -> None:
        self.codec = JsonCodec()

    async def open(self) -> tuple[Carrier, Carrier]:
        """Two ends in this process; pass the descriptor of one to another process to talk to it."""
        here, there = socket.socketpair()
        return SocketCarrier(here), SocketCarrier(there)
