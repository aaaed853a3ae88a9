"""Checks what a router did from the events alone: order, epochs, and that nothing was lost.

It shares no code with the router: it replays the history with a model of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..events import MessageMoved
from ..interfaces import Roster


@dataclass(slots=True)
class _Waiting:
    epoch: int
    order: int
    retried: bool = False


@dataclass(slots=True)
class _Travel:
    """One message on its way: members still to be served, and what is open."""

    unserved: set[str]
    open: int = 0
    excused: bool = False


@dataclass
class HistoryChecker:
    """Pass it as ``on_event`` to a router; call ``finish`` at the end.

    ``early`` counts deliveries of epoch N+1 while a message of epoch N waits (I2); ``reordered`` first
    deliveries out of the order of sending per (holder, receiver, priority, epoch), and with ``strict_pairs``
    any delivery out of that order per (holder, receiver, epoch); ``lost`` admitted messages with no end, or whose audience was not served although none of their hops died or was refused;
    ``phantom`` deliveries and ends of what was never there.
    """

    roster: Roster
    strict_pairs: bool = False
    """Whether the router keeps the order of pairs strictly: over priorities and retries."""
    violations: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    delivered: int = 0
    sent: int = 0

    def __post_init__(self) -> None:
        self._clock = 0
        self._travels: dict[str, _Travel] = {}
        self._order: dict[str, dict[str, int]] = {}
        """Message -> holder -> when that holder sent it."""
        self._held: set[int] = set()
        self._waiting: dict[int, _Waiting] = {}
        self._in_hands: dict[int, _Waiting] = {}
        self._per_epoch: Counter[int] = Counter()
        self._last: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._uprooted: tuple[str, str] | None = None
        self._latest = ""

    def __call__(self, event: MessageMoved) -> None:
        """Take in one event."""
        self._clock += 1
        if event.what != "migrated":
            self._uprooted = None
        getattr(self, f"_on_{event.what}")(event)
        # Not at once: what a relay forwards appears as the event after its ack.
        if self._latest != event.msg_id:
            travel = self._travels.get(self._latest)
            if travel is not None and travel.open == 0 and not travel.unserved:
                self._forget(self._latest)
            self._latest = event.msg_id

    def finish(self) -> None:
        """Everything that is still open is lost."""
        for msg_id, travel in list(self._travels.items()):
            if travel.open:
                self._blame("lost", f"{msg_id} has {travel.open} hops without an end")
            elif travel.unserved and not travel.excused:
                self._blame("lost", f"{msg_id} never reached {sorted(travel.unserved)}")
            self._forget(msg_id)

    def _blame(self, kind: str, what: str) -> None:
        self.violations[kind] += 1
        if len(self.examples) < 10:
            self.examples.append(f"{kind}: {what}")

    def _travel(self, event: MessageMoved) -> _Travel:
        travel = self._travels.get(event.msg_id)
        if travel is None:
            self.sent += 1
            meant = set(self.roster.resolve(event.audience)) - {event.origin}
            travel = self._travels[event.msg_id] = _Travel(set(map(str, meant)))
        return travel

    def _forget(self, msg_id: str) -> None:
        del self._travels[msg_id]
        self._order.pop(msg_id, None)

    def _sent(self, event: MessageMoved) -> int:
        return self._order.setdefault(event.msg_id, {}).setdefault(event.holder, self._clock)

    def _wait(self, hop: int, copy: _Waiting) -> None:
        self._waiting[hop] = copy
        self._per_epoch[copy.epoch] += 1

    def _unwait(self, hop: int) -> _Waiting | None:
        copy = self._waiting.pop(hop, None)
        if copy is not None:
            self._per_epoch[copy.epoch] -= 1
            if not self._per_epoch[copy.epoch]:
                del self._per_epoch[copy.epoch]
        return copy

    def _phantom(self, event: MessageMoved) -> None:
        self._blame("phantom", f"{event.what}: {event.msg_id} {event.holder} -> {event.receiver}")

    def _on_held(self, event: MessageMoved) -> None:
        self._travel(event).open += 1
        self._held.add(event.hop)
        self._sent(event)

    def _on_released(self, event: MessageMoved) -> None:
        if event.hop not in self._held:
            self._phantom(event)
            return
        self._held.discard(event.hop)
        self._travel(event).open -= 1

    def _on_routed(self, event: MessageMoved) -> None:
        self._travel(event).open += 1
        order = self._sent(event)
        self._wait(event.hop, _Waiting(event.epoch, order, order < 0))

    def _on_delivered(self, event: MessageMoved) -> None:
        self.delivered += 1
        copy = self._unwait(event.hop)
        if copy is None:
            self._phantom(event)
            return
        if any(epoch < event.epoch for epoch in self._per_epoch):
            self._blame("early", f"{event.msg_id} of epoch {event.epoch} while {dict(self._per_epoch)} wait")
        if self.strict_pairs or not copy.retried:
            pair = (event.holder, event.receiver, "" if self.strict_pairs else event.priority)
            epoch, last = self._last.get(pair, (-1, 0))
            if epoch == event.epoch and copy.order < last:
                self._blame("reordered", f"{event.msg_id} {pair} of epoch {epoch}")
            self._last[pair] = (event.epoch, copy.order)
        self._in_hands[event.hop] = copy

    def _on_acked(self, event: MessageMoved) -> None:
        if self._in_hands.pop(event.hop, None) is None:
            self._phantom(event)
            return
        travel = self._travel(event)
        travel.open -= 1
        travel.unserved.discard(event.receiver)
        self._order[event.msg_id].pop(event.receiver, None)  # what it forwards has a place of its own

    def _on_nacked(self, event: MessageMoved) -> None:
        copy = self._in_hands.pop(event.hop, None)
        if copy is None:
            self._phantom(event)
            return
        self._wait(event.hop, _Waiting(copy.epoch, copy.order, True))

    def _on_migrated(self, event: MessageMoved) -> None:
        copy = self._unwait(event.hop)
        if copy is None:
            self._phantom(event)
        elif event.receiver:
            self._wait(event.hop, _Waiting(event.epoch, copy.order, copy.retried))
        else:
            self._travel(event).open -= 1
            overtakes = copy.retried and not self.strict_pairs
            order, hop = -1 if overtakes else copy.order, (event.msg_id, event.holder)
            if self._uprooted == hop:  # several hops of one message are routed anew together, at the place of the first
                order = min(order, self._order[event.msg_id][event.holder])
            self._order[event.msg_id][event.holder] = order
            self._uprooted = hop

    def _on_dead(self, event: MessageMoved) -> None:
        travel = self._travel(event)
        travel.excused = True
        if event.hop in self._held:
            self._held.discard(event.hop)
            travel.open -= 1
        elif self._unwait(event.hop) is not None or self._in_hands.pop(event.hop, None) is not None:
            travel.open -= 1
        elif event.receiver:
            self._phantom(event)

    def _on_refused(self, event: MessageMoved) -> None:
        self._travel(event).excused = True
