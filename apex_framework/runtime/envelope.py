"""What the router adds to a message on one hop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ..interfaces.message import AgentID, Epoch, Message
from .record import Tally
from .routes import Hop

NOWHERE: Final = Hop(AgentID(""), (), False)
NOBODYS: Final = Tally()
new: Final = object.__new__


@dataclass(slots=True)
class Envelope(Message):
    """A message on one hop: the sender's fields, stamped with receiver, relay, epoch and expiry.

    Every hop has an envelope of its own; the payload is shared and must not be changed.
    """

    hop: Hop = NOWHERE
    mark: float = 0.0
    """Reading of the receiver's time-to-live clock at which this expires, in seconds."""
    size: int = 0
    """Payload in bytes."""
    number: int = 0
    """Number of this hop, unique within the router."""
    order: int = 0
    """Place in the order of arrival at the router; a hop that is routed anew keeps it."""
    tally: Tally = field(default=NOBODYS, repr=False, compare=False)
    """The router's counters of its service class."""

    @property
    def holder(self) -> AgentID:
        """The agent that this hop starts from."""
        return self.via or self.sender

    @property
    def targets(self) -> tuple[AgentID, ...]:
        """Members of the audience that this hop has still to serve."""
        return self.hop.rest if self.hop.relay else (self.hop.receiver, *self.hop.rest)


def stamp(
    source: Message,
    hop: Hop,
    via: AgentID | None,
    epoch: Epoch,
    expires_ts: float,
    mark: float,
    size: int,
    number: int,
    order: int,
    tally: Tally,
) -> Envelope:
    """A fresh envelope for one hop of a message."""
    # Field by field: the generated __init__ with its keywords takes twice as long, and this is the hot path.
    envelope = new(Envelope)
    envelope.episode_id = source.episode_id
    envelope.msg_id = source.msg_id
    envelope.sender = source.sender
    envelope.recipient = hop.receiver
    envelope.topo_epoch = epoch
    envelope.payload = source.payload
    envelope.priority = source.priority
    envelope.attempt = 0
    envelope.created_ts = source.created_ts
    envelope.expires_ts = expires_ts
    envelope.redelivered = False
    envelope.drop_reason = None
    envelope.audience = source.audience or source.recipient
    envelope.via = via
    envelope.cause_id = source.cause_id
    envelope.trace_id = source.trace_id
    envelope.meta = source.meta
    envelope.hop = hop
    envelope.mark = mark
    envelope.size = size
    envelope.number = number
    envelope.order = order
    envelope.tally = tally
    return envelope
