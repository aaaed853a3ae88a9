"""What the router adds to a message on one hop."""

from __future__ import annotations

from ..interfaces.message import AgentID, Epoch, Message
from .routes import Hop


class Envelope(Message):
    """A message on one hop: the sender's fields, stamped with receiver, relay, epoch and expiry.

    Every hop has an envelope of its own; the payload is shared and must not be changed.
    """

    __slots__ = ("hop", "mark", "size")

    hop: Hop
    mark: float
    """Reading of the receiver's time-to-live clock at which this expires, in seconds."""
    size: int
    """Payload in bytes."""

    def __init__(
        self,
        source: Message,
        hop: Hop,
        via: AgentID | None,
        epoch: Epoch,
        expires_ts: float,
        mark: float,
        size: int,
    ) -> None:
        self.episode_id = source.episode_id
        self.msg_id = source.msg_id
        self.sender = source.sender
        self.recipient = hop.receiver
        self.topo_epoch = epoch
        self.payload = source.payload
        self.priority = source.priority
        self.attempt = 0
        self.created_ts = source.created_ts
        self.expires_ts = expires_ts
        self.redelivered = False
        self.drop_reason = None
        self.audience = source.audience or source.recipient
        self.via = via
        self.cause_id = source.cause_id
        self.trace_id = source.trace_id
        self.meta = source.meta
        self.hop = hop
        self.mark = mark
        self.size = size

    @property
    def holder(self) -> AgentID:
        """The agent that this hop starts from."""
        return self.via or self.sender

    @property
    def targets(self) -> tuple[AgentID, ...]:
        """Members of the audience that this hop has still to serve."""
        return self.hop.rest if self.hop.relay else (self.hop.receiver, *self.hop.rest)
