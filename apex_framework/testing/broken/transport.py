"""One broken transport per check of the kit: each fails exactly that one."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from ...errors import CarrierClosedError, PayloadError
from ...interfaces import AgentID, Carrier, Codec, Epoch, Message, MessagePriority, Transport

LONGEST = 1_000_000


class SoundCodec:
    """A codec with nothing wrong: JSON."""

    schema_hash = "sound"

    def size(self, message: Message) -> int:
        """By encoding."""
        return len(self._text(message.payload))

    def encode(self, message: Message) -> bytes:
        """All fields."""
        return self._text({f.name: getattr(message, f.name) for f in fields(Message)})

    def decode(self, frame: bytes) -> tuple[bool, Message | None, str]:
        """Whatever it is."""
        if len(frame) > LONGEST:
            return False, None, "too_big"
        try:
            record = json.loads(frame)
            message = Message(**record)
            message.priority = MessagePriority(message.priority)
            json.dumps(record, ensure_ascii=False).encode()
        except (ValueError, TypeError, RecursionError):
            return False, None, "bad"
        if any(type(getattr(message, f)) is not str for f in ("msg_id", "sender", "recipient")):
            return False, None, "bad"
        message.sender, message.recipient = AgentID(message.sender), AgentID(message.recipient)
        message.topo_epoch = Epoch(message.topo_epoch)
        return True, message, ""

    def _text(self, value: Any) -> bytes:
        try:
            return json.dumps(value, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(str(error)) from None


class Queue:
    """One end of two queues."""

    def __init__(self, outward: asyncio.Queue[bytes | None], inward: asyncio.Queue[bytes | None]) -> None:
        self.outward, self.inward = outward, inward
        self.closed = False

    async def send(self, frame: bytes) -> None:
        """Append."""
        if self.closed:
            raise CarrierClosedError("closed")
        self.outward.put_nowait(frame)

    async def receive(self) -> bytes:
        """Take."""
        frame = await self.inward.get()
        if frame is None:
            self.inward.put_nowait(None)
            raise CarrierClosedError("closed")
        return frame

    async def close(self) -> None:
        """Tell both ends."""
        if not self.closed:
            self.closed = True
            self.outward.put_nowait(None)
            self.inward.put_nowait(None)


class Sound:
    """A transport with nothing wrong, or with one part replaced."""

    local = False

    def __init__(
        self,
        codec: Callable[[], Codec] = SoundCodec,
        carrier: Callable[..., Queue] = Queue,
        name: str = "sound",
    ) -> None:
        self.name = name
        self.codec = codec()
        self.fallback: tuple[str, ...] = ()
        self._carrier = carrier

    async def open(self) -> tuple[Carrier, Carrier]:
        """Two ends in this process."""
        there: asyncio.Queue[bytes | None] = asyncio.Queue()
        back: asyncio.Queue[bytes | None] = asyncio.Queue()
        return self._carrier(there, back), self._carrier(back, there)


class Unidentified(SoundCodec):
    """Has no schema hash."""

    schema_hash = ""


class CountsCharacters(SoundCodec):
    """Stops counting at a thousand."""

    def size(self, message: Message) -> int:
        """Too small for long payloads."""
        return min(super().size(message), 1000)


class WritesReprs(SoundCodec):
    """Writes what it does not understand as text."""

    def size(self, message: Message) -> int:
        """Of anything."""
        try:
            return super().size(message)
        except PayloadError:
            return 0


class DropsTheRelay(SoundCodec):
    """Forgets a field."""

    def encode(self, message: Message) -> bytes:
        """Without ``via``."""
        return super().encode(replace(message, via=None))


class Stamps(SoundCodec):
    """Writes the time into every frame, and ignores it when it reads."""

    def encode(self, message: Message) -> bytes:
        """Never twice the same."""
        return super().encode(message) + b" " * (time.perf_counter_ns() % 1000 + 1)


class RaisesOnEmpty(SoundCodec):
    """Looks at the first byte before it looks whether there is one."""

    def decode(self, frame: bytes) -> tuple[bool, Message | None, str]:
        """Raises IndexError for nothing."""
        return super().decode(frame) if frame[0] == ord("{") else (False, None, "bad")


class RefusesSilently(SoundCodec):
    """Does not say why."""

    def decode(self, frame: bytes) -> tuple[bool, Message | None, str]:
        """No code."""
        ok, message, _ = super().decode(frame)
        return ok, message, ""


class Overtakes(Queue):
    """Lets short frames overtake: frames of one byte are swapped."""

    kept: bytes | None = None

    async def send(self, frame: bytes) -> None:
        """A frame of one byte waits for the next one."""
        if self.kept is None and len(frame) == 1 and not self.closed:
            self.kept = frame
            return
        await super().send(frame)
        if self.kept is not None:
            kept, self.kept = self.kept, None
            await super().send(kept)


class OneWay(Queue):
    """Sends in both directions, but its second end is never heard."""

    async def send(self, frame: bytes) -> None:
        """Swallows answers."""
        if frame != b"pong":
            await super().send(frame)


class LosesWhenCancelled(Queue):
    """A receive that is given up takes the next frame with it."""

    given_up = False

    async def receive(self) -> bytes:
        """Remembers that it was cancelled."""
        try:
            frame = await super().receive()
        except asyncio.CancelledError:
            self.given_up = True
            raise
        if self.given_up:
            self.given_up = False
            return await super().receive()
        return frame


class LeavesWaiting(Queue):
    """Closes without telling anybody."""

    async def close(self) -> None:
        """Only remembers it."""
        self.closed = True


class SendsAnyway(Queue):
    """Takes frames after it was closed."""

    async def send(self, frame: bytes) -> None:
        """Always."""
        self.outward.put_nowait(frame)


class HomeBound(Queue):
    """Offers itself to another process, where it does not work."""

    def detach(self) -> int:
        """A descriptor of nothing in particular."""
        return socket.socket().detach()

    @classmethod
    def adopt(cls, fileno: int) -> Carrier:
        """Not here."""
        raise OSError("cannot be adopted")


BROKEN: dict[str, Callable[[], Transport]] = {
    "has_a_name": lambda: Sound(name=""),
    "has_a_schema_hash": lambda: Sound(Unidentified),
    "size_is_of_the_payload": lambda: Sound(CountsCharacters),
    "refuses_what_has_no_encoding": lambda: Sound(WritesReprs),
    "encodes_and_decodes": lambda: Sound(DropsTheRelay),
    "encoding_is_pure": lambda: Sound(Stamps),
    "decoding_never_raises": lambda: Sound(RaisesOnEmpty),
    "refusals_have_a_code": lambda: Sound(RefusesSilently),
    "carries_frames_in_order": lambda: Sound(carrier=Overtakes),
    "carries_both_ways": lambda: Sound(carrier=OneWay),
    "cancelled_receive_loses_nothing": lambda: Sound(carrier=LosesWhenCancelled),
    "closing_ends_receive": lambda: Sound(carrier=LeavesWaiting),
    "closed_refuses_to_send": lambda: Sound(carrier=SendsAnyway),
    "crosses_processes": lambda: Sound(carrier=HomeBound),
}
