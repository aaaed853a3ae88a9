"""What a router has done so far: numbers that must add up, the dead letters, and events for whoever listens."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..events import MessageMoved
from ..interfaces.message import DeadReason, Message, RouteResult

DEAD_LETTERS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class RouterStats:
    """Counters of hops: a message to three receivers counts three times; one held at the epoch gate counts once.

    ``admitted == acked + sum(dead) + waiting + leased + backoff`` at every moment.
    """

    admitted: int
    acked: int
    dead: Mapping[str, int]
    """Dead letters by reason."""
    waiting: int
    """In lanes and at the epoch gate."""
    leased: int
    backoff: int
    refused: Mapping[str, int]
    """Hops never admitted, by route result; the unreachable part of an audience counts as no route."""
    bytes: int
    """Payload bytes of all hops that were admitted to a lane."""
    fanout_cut: int
    """Receivers passed over by the fan-out bound."""
    migrated: int
    """Messages moved from one epoch to the next."""
    forwarded: int
    """Hops that began at a relay."""
    redelivered: int
    """Deliveries of messages that had been delivered before."""

    @property
    def balanced(self) -> bool:
        """Whether every admitted hop is accounted for."""
        return self.admitted == self.acked + sum(self.dead.values()) + self.waiting + self.leased + self.backoff


class Record:
    """Running counters of one router, and its only way to tell anybody."""

    __slots__ = (
        "acked",
        "admitted",
        "bytes",
        "dead",
        "dead_letters",
        "fanout_cut",
        "forwarded",
        "hops",
        "listener",
        "migrated",
        "now",
        "redelivered",
        "refused",
    )

    def __init__(self, now: Callable[[], float], listener: Callable[[MessageMoved], None] | None) -> None:
        self.now = now
        self.listener = listener
        self.hops = 0
        self.admitted = self.acked = self.bytes = self.fanout_cut = 0
        self.migrated = self.forwarded = self.redelivered = 0
        self.dead: Counter[DeadReason] = Counter()
        self.refused: Counter[RouteResult] = Counter()
        self.dead_letters: deque[Message] = deque(maxlen=DEAD_LETTERS_KEPT)

    def tell(
        self,
        what: str,
        message: Message,
        receiver: str,
        size: int,
        reason: str = "",
        holder: str | None = None,
        hop: int | None = None,
    ) -> None:
        """Tell the listener, if there is one. Holder and hop are by default those of the envelope."""
        if self.listener is not None:
            holder = holder or message.via or message.sender
            audience = message.audience or message.recipient
            event = MessageMoved(
                message.episode_id,
                message.msg_id,
                what,
                message.sender,
                holder,
                receiver,
                audience,
                message.topo_epoch,
                self.now(),
                size,
                reason,
                getattr(message, "number", 0) if hop is None else hop,
            )
            self.listener(event)

    def refuse(
        self, message: Message, result: RouteResult, receiver: str, size: int, reason: str = "", hops: int = 1
    ) -> RouteResult:
        """Count hops that are not admitted; returns ``result``."""
        self.refused[result] += hops
        self.tell("refused", message, receiver, size, reason or result.value)
        return result

    def bury(
        self,
        message: Message,
        reason: DeadReason,
        receiver: str,
        size: int,
        holder: str | None = None,
        hop: int | None = None,
    ) -> None:
        """An admitted message ends as a dead letter."""
        self.dead[reason] += 1
        message.drop_reason = reason.value
        self.dead_letters.append(message)
        self.tell("dead", message, receiver, size, reason.value, holder, hop)

    def stats(self, waiting: int, leased: int, backoff: int) -> RouterStats:
        """The counters, with what is open now."""
        return RouterStats(
            admitted=self.admitted,
            acked=self.acked,
            dead={reason.value: n for reason, n in self.dead.items()},
            waiting=waiting,
            leased=leased,
            backoff=backoff,
            refused={result.value: n for result, n in self.refused.items()},
            bytes=self.bytes,
            fanout_cut=self.fanout_cut,
            migrated=self.migrated,
            forwarded=self.forwarded,
            redelivered=self.redelivered,
        )
