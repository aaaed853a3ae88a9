"""The message: what agents exchange, and what the router answers.

It stands among the contracts because lanes, transports, policies and agents all speak of it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NewType

AgentID = NewType("AgentID", str)
Epoch = NewType("Epoch", int)

BROADCAST: Final = AgentID("BROADCAST")
"""The recipient, or audience, that stands for everyone but the sender."""

MAX_PAYLOAD_BYTES: Final = 512 * 1024
"""Largest payload the router admits, in bytes of its UTF-8 JSON form."""


class MessagePriority(StrEnum):
    """The three service classes of a message, most urgent first."""

    FINAL = "final"
    DRAFT = "draft"
    CRITIC = "critic"


class RouteResult(StrEnum):
    """What became of a message handed to the router; true only when it was enqueued."""

    ENQUEUED = "enqueued"
    NO_ROUTE = "dropped_no_route"
    FULL = "dropped_full"
    WRED = "dropped_wred"
    FANOUT = "dropped_fanout"
    POLICY = "dropped_policy"
    EXPIRED = "dropped_expired"
    CLOSED = "dropped_closed"

    def __bool__(self) -> bool:
        return self is RouteResult.ENQUEUED


class DeadReason(StrEnum):
    """Why an admitted message was not acknowledged: exactly one of five."""

    EXPIRED = "expired"
    MAX_RETRIES = "max_retries"
    RECIPIENT_GONE = "recipient_gone"
    NO_ROUTE = "no_route"
    EPISODE_OVER = "episode_over"


@dataclass(slots=True)
class Message:
    """One message, addressed to an audience and carried hop by hop.

    ``sender`` is the agent that wrote it and never changes; ``recipient`` is the receiver of this
    hop; ``via`` is the relay that this hop starts from, or None when it starts at the sender.
    ``audience`` says whom it is for: an agent id, a role, several joined by ``+``, or BROADCAST;
    None means the recipient itself. Times are monotonic seconds; ``expires_ts`` 0.0 means that the
    router stamps it on admission. Mutable because a retry changes ``attempt`` and ``redelivered``.
    """

    episode_id: str
    msg_id: str
    sender: AgentID
    recipient: AgentID
    topo_epoch: Epoch
    payload: dict[str, Any]
    priority: MessagePriority = MessagePriority.DRAFT
    attempt: int = 0
    created_ts: float = field(default_factory=time.monotonic)
    expires_ts: float = 0.0
    redelivered: bool = False
    drop_reason: str | None = None
    audience: str | None = None
    via: AgentID | None = None
    cause_id: str | None = None
    trace_id: str | None = None
    meta: dict[str, Any] | None = None
