"""What became of every message that was offered, and what of that is loss.

A message is offered once, whatever its sender then does. It ends in one of three ways:

* ``handled``: its addressee acknowledged it.
* ``refused``: the router refused it (a NACK to the sender), and the sender gave up.
* ``dead``: it was admitted and became a dead letter.

**Loss** is (refused + dead) / offered. A sender that is throttled by a NACK, tries the same message again and succeeds
has not lost it: such refusals are counted apart, as **refusals per offer** (refused tries / offered). The **strict** loss
counts a message as lost when it was refused even once, or died: it is the reading under which a NACK is a loss whatever
the sender does next, and an upper bound on the loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..events import MessageMoved

OPEN, HANDLED, REFUSED, DEAD = "open", "handled", "refused", "dead"


@dataclass(slots=True)
class Fate:
    """One message: its class, when it came into being, how often it was refused, how it ended and when (seconds)."""

    service: str
    born: float
    refusals: int = 0
    end: str = OPEN
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class Loss:
    """What became of a number of messages."""

    offered: int
    handled: int
    refused: int
    dead: int
    open: int
    refusals: int
    """Tries that were refused; one message can add many."""
    ever_refused_or_dead: int

    @property
    def share(self) -> float:
        """Messages lost for good, as a share of those offered."""
        return (self.refused + self.dead) / self.offered if self.offered else 0.0

    @property
    def strict(self) -> float:
        """Messages refused at least once, or dead, as a share of those offered."""
        return self.ever_refused_or_dead / self.offered if self.offered else 0.0

    @property
    def refusals_per_offer(self) -> float:
        """Refused tries per message offered; may exceed 1."""
        return self.refusals / self.offered if self.offered else 0.0


def losses(fates: Iterable[Fate]) -> Loss:
    """Count what became of messages."""
    ends: Counter[str] = Counter()
    refusals = ever = 0
    for fate in fates:
        ends[fate.end] += 1
        refusals += fate.refusals
        ever += fate.refusals > 0 or fate.end == DEAD
    total = sum(ends.values())
    return Loss(total, ends[HANDLED], ends[REFUSED], ends[DEAD], ends[OPEN], refusals, ever)


class Fates:
    """Keeps the fate of every message of a trial; listens to the router's events."""

    def __init__(self) -> None:
        self.by_id: dict[str, Fate] = {}
        self.drops: Counter[str] = Counter()
        """Refused tries by route result, dead letters as ``dead: reason``."""

    def offered(self, message_id: str, service: str, now: float) -> None:
        """A sender has a message to send."""
        self.by_id[message_id] = Fate(service, now)

    def refused(self, message_id: str, result: str) -> None:
        """One try was refused."""
        self.by_id[message_id].refusals += 1
        self.drops[result] += 1

    def given_up(self, message_id: str, now: float) -> None:
        """The sender tries no more."""
        self._end(message_id, REFUSED, now)

    def __call__(self, event: MessageMoved) -> None:
        """An event of the router."""
        if event.what == "acked" and event.receiver == event.audience:
            self._end(event.msg_id, HANDLED, event.ts)
        elif event.what == "dead":
            self.drops[f"dead: {event.reason}"] += 1
            self._end(event.msg_id, DEAD, event.ts)

    def of(self, service: str) -> list[Fate]:
        """Fates of one class."""
        return [fate for fate in self.by_id.values() if fate.service == service]

    def _end(self, message_id: str, end: str, now: float) -> None:
        fate = self.by_id.get(message_id)
        if fate is not None and fate.end == OPEN:
            fate.end, fate.ended = end, now
