"""What a router has done so far: numbers that must add up, the dead letters, and events for whoever listens."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ..events import MessageMoved
from ..interfaces.message import DeadReason, Message, MessagePriority, RouteResult

DEAD_LETTERS_KEPT = 1000
OTHER = "other"
"""Under this name the messages of no known class are counted."""


@dataclass(frozen=True, slots=True)
class ClassStats:
    """Hops of one service class; ``admitted == acked + dead + waiting + leased + backoff`` for each."""

    admitted: int
    acked: int
    dead: int
    refused: int
    """Never admitted."""
    waiting: int
    """In lanes and at the epoch gate."""
    leased: int
    backoff: int


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
    """Deliveries of messages that had been delivered before, or that were flagged as duplicates."""
    duplicates: int = 0
    """Deliveries that the receiver's dedup store flagged."""
    late: int = 0
    """Acks, nacks and renewals of leases that had ended, or that this router never gave."""
    throttled: int = 0
    """Messages whose sender was made to wait."""
    postponed: int = 0
    """Retries put off for lack of retry budget."""
    held: int = 0
    """Of those waiting: at the epoch gate."""
    classes: Mapping[str, ClassStats] = field(default_factory=dict)
    """By service class: final, draft, critic, and ``other`` where there was one."""
    lanes: Mapping[str, float] = field(default_factory=dict)
    """By receiver: share of its lane's capacity that is taken; above 1 after a migration."""

    @property
    def balanced(self) -> bool:
        """Whether every admitted hop is accounted for."""
        return self.admitted == self.acked + sum(self.dead.values()) + self.waiting + self.leased + self.backoff


class Tally:
    """Running counters of one service class."""

    __slots__ = ("acked", "admitted", "dead", "refused")

    def __init__(self) -> None:
        self.admitted = self.acked = self.dead = self.refused = 0


class Record:
    """Running counters of one router, and its only way to tell anybody."""

    __slots__ = (
        "bytes",
        "dead",
        "dead_letters",
        "duplicates",
        "fanout_cut",
        "forwarded",
        "hops",
        "late",
        "listener",
        "migrated",
        "now",
        "on_dead",
        "other",
        "postponed",
        "redelivered",
        "refused",
        "tallies",
        "throttled",
    )

    def __init__(self, now: Callable[[], float], listener: Callable[[MessageMoved], None] | None) -> None:
        self.now = now
        self.listener = listener
        self.on_dead: Callable[[], None] | None = None
        """Called after every dead letter; may not touch the router."""
        self.hops = self.bytes = self.fanout_cut = self.migrated = self.forwarded = self.redelivered = 0
        self.duplicates = self.late = self.throttled = self.postponed = 0
        self.dead: Counter[DeadReason] = Counter()
        self.refused: Counter[RouteResult] = Counter()
        self.dead_letters: deque[Message] = deque(maxlen=DEAD_LETTERS_KEPT)
        self.tallies: dict[str, Tally] = {priority: Tally() for priority in MessagePriority}
        self.other = Tally()

    @property
    def admitted(self) -> int:
        """Hops ever admitted."""
        return sum(tally.admitted for tally in self.tallies.values()) + self.other.admitted

    @property
    def acked(self) -> int:
        """Hops acknowledged."""
        return sum(tally.acked for tally in self.tallies.values()) + self.other.acked

    @property
    def open(self) -> int:
        """Hops admitted that have not ended."""
        return sum(t.admitted - t.acked - t.dead for t in (*self.tallies.values(), self.other))

    def tally(self, message: Message) -> Tally:
        """The counters of a message's class."""
        try:
            return self.tallies[message.priority]
        except (KeyError, TypeError):
            return self.other

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
                str(message.priority),
            )
            self.listener(event)

    def refuse(
        self, message: Message, result: RouteResult, receiver: str, size: int, reason: str = "", hops: int = 1
    ) -> RouteResult:
        """Count hops that are not admitted; returns ``result``."""
        self.refused[result] += hops
        self.tally(message).refused += hops
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
        self.tally(message).dead += 1
        message.drop_reason = reason.value
        self.dead_letters.append(message)
        self.tell("dead", message, receiver, size, reason.value, holder, hop)
        if self.on_dead is not None:
            self.on_dead()

    def stats(
        self, held: int, waiting: int, leased: Iterable[Message], backoff: Iterable[Message], lanes: Mapping[str, float]
    ) -> RouterStats:
        """The counters, with what is open now; ``waiting`` are those in lanes, ``held`` those at the gate."""
        in_hands, in_backoff = Counter(map(self.tally, leased)), Counter(map(self.tally, backoff))
        classes = {}
        for name, tally in (*self.tallies.items(), (OTHER, self.other)):
            if tally.admitted or tally.refused or name != OTHER:
                active = in_hands[tally] + in_backoff[tally]
                classes[str(name)] = ClassStats(
                    tally.admitted,
                    tally.acked,
                    tally.dead,
                    tally.refused,
                    tally.admitted - tally.acked - tally.dead - active,
                    in_hands[tally],
                    in_backoff[tally],
                )
        return RouterStats(
            admitted=self.admitted,
            acked=self.acked,
            dead={reason.value: n for reason, n in self.dead.items()},
            waiting=held + waiting,
            leased=in_hands.total(),
            backoff=in_backoff.total(),
            refused={result.value: n for result, n in self.refused.items()},
            bytes=self.bytes,
            fanout_cut=self.fanout_cut,
            migrated=self.migrated,
            forwarded=self.forwarded,
            redelivered=self.redelivered,
            duplicates=self.duplicates,
            late=self.late,
            throttled=self.throttled,
            postponed=self.postponed,
            held=held,
            classes=classes,
            lanes=lanes,
        )
