"""One broken lane discipline per check of the kit: each fails exactly that one."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ...interfaces import Lane, LaneDiscipline, Message, MessagePriority, RouteResult


def urgency(message: Message) -> int:
    """Place of a message's class, the most urgent first, strangers last."""
    order = list(MessagePriority)
    return order.index(message.priority) if message.priority in order else len(order)


class SoundLane:
    """A lane with nothing wrong: first in, first out."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.waiting: deque[Message] = deque()

    def offer(self, message: Message) -> RouteResult:
        """Admit or refuse."""
        if len(self.waiting) >= self.capacity:
            return RouteResult.FULL
        self.waiting.append(message)
        return RouteResult.ENQUEUED

    def restore(self, message: Message) -> None:
        """Admit."""
        self.waiting.append(message)

    def take(self) -> Message | None:
        """The oldest."""
        return self.waiting.popleft() if self.waiting else None

    def __len__(self) -> int:
        return len(self.waiting)

    def __iter__(self) -> Iterator[Message]:
        return iter(list(self.waiting))


class Discipline:
    """Makes lanes of one class."""

    def __init__(self, lane: Callable[[int], Lane] = SoundLane, name: str = "sound") -> None:
        self.name = name
        self._make = lane

    def lane(self, receiver: str, capacity: int, rng: random.Random) -> Lane:
        """A lane of that class."""
        return self._make(capacity)


class RaisesWhenDrained(SoundLane):
    """Is not ready to be empty again."""

    used = False

    def offer(self, message: Message) -> RouteResult:
        """Admits."""
        self.used = True
        return super().offer(message)

    def take(self) -> Message | None:
        """Raises once it is drained, but only with one message."""
        if self.used and not self.waiting and self.served == 1:
            raise IndexError("pop from an empty lane")
        self.served += 1
        return super().take()

    served = -1


class AnswersTrue(SoundLane):
    """Takes a string for a result."""

    def offer(self, message: Message) -> Any:
        """The right words, but of another type."""
        return str(super().offer(message).value)


class Duplicates(SoundLane):
    """Gives copies instead of the messages."""

    def take(self) -> Message | None:
        """A copy."""
        import copy

        return copy.copy(super().take())


class LastFirst(SoundLane):
    """A stack, as long as nothing is restored."""

    restored = False

    def restore(self, message: Message) -> None:
        """A queue from now on."""
        self.restored = True
        super().restore(message)

    def take(self) -> Message | None:
        """The youngest."""
        return super().take() if self.restored or not self.waiting else self.waiting.pop()


class Miscounts(SoundLane):
    """Counts one more while something waits."""

    def __len__(self) -> int:
        return len(self.waiting) + (1 if self.waiting else 0)


class Unbounded(SoundLane):
    """Admits whatever comes, unless restored messages fill it."""

    restored = 0

    def restore(self, message: Message) -> None:
        """Counted."""
        self.restored += 1
        super().restore(message)

    def offer(self, message: Message) -> RouteResult:
        """Nearly always."""
        if self.restored >= self.capacity:
            return RouteResult.FULL
        self.waiting.append(message)
        return RouteResult.ENQUEUED


class KeepsRefused(SoundLane):
    """Keeps the first message that it refuses, for later."""

    refused: Message | None = None

    def offer(self, message: Message) -> RouteResult:
        """Refuses, but remembers."""
        result = super().offer(message)
        if result is RouteResult.FULL:
            self.refused = message
        return result

    def take(self) -> Message | None:
        """The oldest, and at last the refused one."""
        message, self.refused = (None, self.refused) if self.waiting else (self.refused, None)
        return super().take() if message is None else message


class MakesRoom(SoundLane):
    """Refuses in the end, but gives up the oldest message's place first."""

    def offer(self, message: Message) -> RouteResult:
        """Sends the oldest to the back when full."""
        result = super().offer(message)
        if result is RouteResult.FULL and message.sender != self.waiting[0].sender:
            self.waiting.rotate(-1)
            if self.waiting[-1].sender == self.waiting[0].sender and (
                self.waiting[-1].priority == self.waiting[0].priority
            ):
                self.waiting.rotate(1)
        return result


class LeaksRoom(SoundLane):
    """Loses a place with every refusal."""

    def offer(self, message: Message) -> RouteResult:
        """Admits less and less."""
        result = super().offer(message)
        if result is RouteResult.FULL:
            self.capacity -= 1
        return result


class RestoresInFront(SoundLane):
    """Puts what comes back before those that are here, if any was offered."""

    offered = False

    def offer(self, message: Message) -> RouteResult:
        """Admits."""
        self.offered = True
        return super().offer(message)

    def restore(self, message: Message) -> None:
        """First, not last."""
        if self.offered:
            self.waiting.insert(self.returned, message)
            self.returned += 1
        else:
            super().restore(message)

    returned = 0


class CountsOffersOnly(SoundLane):
    """Has room for its capacity besides what was restored."""

    restored = 0

    def restore(self, message: Message) -> None:
        """Not counted."""
        self.restored += 1
        super().restore(message)

    def offer(self, message: Message) -> RouteResult:
        """Admits past capacity."""
        if len(self.waiting) - self.restored >= self.capacity:
            return RouteResult.FULL
        self.waiting.append(message)
        return RouteResult.ENQUEUED


class StrictPriority(SoundLane):
    """Serves the urgent ones first, always."""

    def take(self) -> Message | None:
        """The oldest of the most urgent class that waits."""
        chosen = min(self.waiting, key=urgency, default=None)
        if chosen is not None:
            self.waiting.remove(chosen)
        return chosen


class KnowsThree(SoundLane):
    """Has a place for each of the three priorities and for no other."""

    def offer(self, message: Message) -> RouteResult:
        """Raises for strangers."""
        MessagePriority(message.priority)
        return super().offer(message)


class ForgetsRestored(SoundLane):
    """Drops what comes back to a full lane."""

    def restore(self, message: Message) -> None:
        """Only while there is room."""
        if len(self.waiting) < self.capacity:
            self.waiting.append(message)


class LooksHard(SoundLane):
    """Turns when it is looked at a second time."""

    looks = 0

    def __iter__(self) -> Iterator[Message]:
        self.looks += 1
        return iter(list(self.waiting) if self.looks == 1 else list(self.waiting)[::-1])


class ShowsPriorities(SoundLane):
    """Shows the urgent ones first."""

    def __iter__(self) -> Iterator[Message]:
        return iter(sorted(self.waiting, key=urgency))


class OneForAll(Discipline):
    """Shows every lane what waits in the others."""

    def lane(self, receiver: str, capacity: int, rng: random.Random) -> Lane:
        """The same lane for each receiver."""
        if not hasattr(self, "_only"):
            self._only = SoundLane(capacity)
        return self._only


class Whims:
    """Lanes that serve one of the two senders first, and each time the other one."""

    name = "whims"

    def __init__(self, counter: Iterator[int]) -> None:
        self._first = next(counter) % 2

    def lane(self, receiver: str, capacity: int, rng: random.Random) -> Lane:
        """A lane with today's favourite."""
        return Favourites(capacity, f"s{self._first}")


class Favourites(SoundLane):
    """Serves one sender before all others."""

    def __init__(self, capacity: int, favourite: str) -> None:
        super().__init__(capacity)
        self._favourite = favourite

    def take(self) -> Message | None:
        """The oldest of the favourite, or the oldest."""
        chosen = next((m for m in self.waiting if m.sender == self._favourite), None)
        if chosen is None:
            return super().take()
        self.waiting.remove(chosen)
        return chosen


def _whims() -> Callable[[], LaneDiscipline]:
    counter = itertools.count()
    return lambda: Whims(counter)


BROKEN: dict[str, Callable[[], LaneDiscipline]] = {
    "has_a_name": lambda: Discipline(name=""),
    "empty_gives_none": lambda: Discipline(RaisesWhenDrained),
    "answers_with_a_result": lambda: Discipline(AnswersTrue),
    "gives_what_it_took": lambda: Discipline(Duplicates),
    "keeps_the_order_of_a_pair": lambda: Discipline(LastFirst),
    "counts_what_waits": lambda: Discipline(Miscounts),
    "bounded": lambda: Discipline(Unbounded),
    "refusing_leaves_no_trace": lambda: Discipline(KeepsRefused),
    "refusing_changes_nothing": lambda: Discipline(MakesRoom),
    "room_comes_back": lambda: Discipline(LeaksRoom),
    "restores_past_capacity": lambda: Discipline(ForgetsRestored),
    "restored_wait_behind": lambda: Discipline(RestoresInFront),
    "restored_take_room": lambda: Discipline(CountsOffersOnly),
    "no_class_starves": lambda: Discipline(StrictPriority),
    "serves_strangers": lambda: Discipline(KnowsThree),
    "looking_changes_nothing": lambda: Discipline(LooksHard),
    "shows_arrival_order": lambda: Discipline(ShowsPriorities),
    "lanes_share_nothing": OneForAll,
    "same_seed_same_service": _whims(),
}
