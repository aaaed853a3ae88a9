"""In-process transport: the message itself is handed over; its size is counted as if it had travelled."""

from __future__ import annotations

import asyncio
from collections import deque

from apex_framework.errors import CarrierClosedError
from apex_framework.interfaces import Carrier

from .json_codec import JsonCodec


class _Channel:
    """One direction: frames on their way, and whether either end has closed."""

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.closed = False
        self.arrived = asyncio.Event()


class MemoryCarrier:
    """One end of a pair of in-memory channels."""

    def __init__(self, outward: _Channel, inward: _Channel) -> None:
        self._outward, self._inward = outward, inward

    async def send(self, frame: bytes) -> None:
        """Raises CarrierClosedError once either end is closed."""
        if self._outward.closed:
            raise CarrierClosedError("the carrier is closed")
        self._outward.frames.append(bytes(frame))
        self._outward.arrived.set()

    async def receive(self) -> bytes:
        """The next frame; what was sent before a close still arrives. Raises CarrierClosedError after that."""
        inward = self._inward
        while not inward.frames:
            if inward.closed:
                raise CarrierClosedError("the carrier is closed")
            inward.arrived.clear()
            await inward.arrived.wait()
        return inward.frames.popleft()

    async def close(self) -> None:
        """Close both directions."""
        for channel in (self._outward, self._inward):
            channel.closed = True
            channel.arrived.set()


class InProcess:
    """Both ends share memory."""

    name = "inproc"
    local = True
    fallback: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.codec = JsonCodec()

    async def open(self) -> tuple[Carrier, Carrier]:
        """Two ends within this event loop."""
        there, back = _Channel(), _Channel()
        return MemoryCarrier(there, back), MemoryCarrier(back, there)
