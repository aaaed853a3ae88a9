"""Transport: a codec, a carrier, and what to fall back to."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from .message import Message


@runtime_checkable
class Codec(Protocol):
    """Messages to bytes and back. Pure; decoding never raises."""

    @property
    def schema_hash(self) -> str:
        """Identity of the wire format; two ends with different hashes do not talk."""
        ...

    def size(self, message: Message) -> int:
        """Bytes of the encoded payload, exact, without necessarily encoding it.

        Raises PayloadError when the payload has no encoding.
        """
        ...

    def encode(self, message: Message) -> bytes:
        """One self-contained frame. Raises PayloadError when the payload has no encoding."""
        ...

    def decode(self, frame: bytes) -> tuple[bool, Message | None, str]:
        """(ok, message, error code). Whatever the bytes are: no exception, bounded work."""
        ...


@runtime_checkable
class Carrier(Protocol):
    """One end of a connection that moves whole frames in order."""

    async def send(self, frame: bytes) -> None:
        """Hand over one frame. Raises CarrierClosedError when the other end is gone."""
        ...

    async def receive(self) -> bytes:
        """The next frame. Raises CarrierClosedError when no more can come."""
        ...

    async def close(self) -> None:
        """Close this end; idempotent; a pending receive at either end ends."""
        ...


@runtime_checkable
class Inheritable(Protocol):
    """Optional ability of a carrier: its end can be handed to another process."""

    def detach(self) -> int:
        """Give the open descriptor behind this end away: it is closed here, the connection goes on."""
        ...

    @classmethod
    def adopt(cls, fileno: int) -> Carrier:
        """The same end, in the process that has the descriptor now."""
        ...


@runtime_checkable
class Transport(Protocol):
    """How messages cross an edge."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    @property
    def codec(self) -> Codec:
        """How messages look on this transport."""
        ...

    @property
    def local(self) -> bool:
        """True when both ends share memory: the router hands the object over and only counts its bytes."""
        ...

    @property
    def fallback(self) -> tuple[str, ...]:
        """Transports to try, in order, when this one fails."""
        ...

    async def open(self) -> tuple[Carrier, Carrier]:
        """Two connected ends."""
        ...
