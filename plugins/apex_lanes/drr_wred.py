"""Three classes in fair shares, and refusals before the lane is full.

Service is deficit round robin (Shreedhar and Varghese, 1995) with the message as its unit of cost: an
agent handles messages one by one, whatever their size. Early refusal is weighted random early
detection (Floyd and Jacobson, 1993, with a curve per class) over the lane's occupancy of the moment: a
lane lives for one epoch, too short for a moving average to settle.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from apex_framework.interfaces import Message, RouteResult

from .classes import ServiceClass, service_classes

_ENQUEUED = RouteResult.ENQUEUED
_FULL = RouteResult.FULL
_WRED = RouteResult.WRED
_TRIM = 4096


class DrrWredLane:
    """A bounded lane of three first-in-first-out queues. ``offer`` and ``take`` are O(1), ``iter`` is O(waiting).

    A message of no known class is served and refused as the least urgent one.
    """

    __slots__ = (
        "_arrivals",
        "_by_class",
        "_capacity",
        "_credit",
        "_queues",
        "_random",
        "_trim_at",
        "_turn",
        "_waiting",
    )

    def __init__(self, classes: tuple[ServiceClass, ...], capacity: int, rng: random.Random) -> None:
        self._capacity = capacity
        self._random = rng.random
        self._queues = tuple(_Queue(place, service, capacity) for place, service in enumerate(classes))
        self._by_class = {queue.service.name: queue for queue in self._queues}
        self._turn = 0
        self._credit = classes[0].weight
        """Messages that the class whose turn it is may still have in this round."""
        self._waiting = 0
        self._arrivals = bytearray()
        """Class of each message in order of arrival; of the messages gone since then too, until it is trimmed."""
        self._trim_at = _TRIM

    def offer(self, message: Message) -> RouteResult:
        """Admit; or refuse, as FULL without room, as WRED by chance as the lane fills."""
        waiting = self._waiting
        try:
            queue = self._by_class[message.priority]
        except (KeyError, TypeError):
            queue = self._queues[-1]
        if waiting > queue.free:
            if waiting >= self._capacity:
                return _FULL
            if self._random() < queue.service.refusal(waiting / self._capacity):
                return _WRED
        self._waiting = waiting + 1
        queue.messages.append(message)
        self._arrivals.append(queue.place)
        if len(self._arrivals) > self._trim_at:
            self._trim()
        return _ENQUEUED

    def restore(self, message: Message) -> None:
        """Append to its class, regardless of capacity and chance."""
        try:
            queue = self._by_class[message.priority]
        except (KeyError, TypeError):
            queue = self._queues[-1]
        self._waiting += 1
        queue.messages.append(message)
        self._arrivals.append(queue.place)
        if len(self._arrivals) > self._trim_at:
            self._trim()

    def take(self) -> Message | None:
        """The oldest of the class whose turn it is; each class has ``weight`` messages a round while it has any."""
        if not self._waiting:
            return None
        self._waiting -= 1
        queue, credit = self._queues[self._turn], self._credit
        while not (credit and queue.messages):
            self._turn = turn = (self._turn + 1) % len(self._queues)
            queue = self._queues[turn]
            credit = queue.service.weight
        self._credit = credit - 1
        return queue.messages.popleft()

    def __len__(self) -> int:
        return self._waiting

    def __iter__(self) -> Iterator[Message]:
        queues = [iter(queue.messages) for queue in self._queues]
        return iter([next(queues[place]) for place in self._here()])

    def _here(self) -> bytearray:
        """Class of each message that waits, in order of arrival: of each class, the oldest arrivals are those gone."""
        gone = [self._arrivals.count(queue.place) - len(queue.messages) for queue in self._queues]
        here = bytearray()
        for place in self._arrivals:
            if gone[place]:
                gone[place] -= 1
            else:
                here.append(place)
        return here

    def _trim(self) -> None:
        """Forget the arrivals of messages that have gone: every so many arrivals, so that it costs each of them O(1)."""
        self._arrivals = self._here()
        self._trim_at = 2 * len(self._arrivals) + _TRIM


class _Queue:
    """What waits of one class."""

    __slots__ = ("free", "messages", "place", "service")

    def __init__(self, place: int, service: ServiceClass, capacity: int) -> None:
        self.place = place
        self.service = service
        self.messages: deque[Message] = deque()
        self.free = min(int(service.threshold * capacity), capacity - 1)
        """With so many waiting, or fewer, nothing is refused."""


class DrrWred:
    """Makes lanes with deficit round robin between the classes and weighted random early refusal.

    ``weights`` (8, 3, 1), ``thresholds`` (0.95, 0.80, 0.60) and ``slopes`` (0.5, 0.8, 1.0) are tables by
    class (final, draft, critic); a class left out keeps its value. Raises ConfigError.
    """

    name = "drr_wred"

    def __init__(
        self,
        weights: Mapping[str, Any] | None = None,
        thresholds: Mapping[str, Any] | None = None,
        slopes: Mapping[str, Any] | None = None,
        spec: str = "",
    ) -> None:
        self.classes = service_classes(weights, thresholds, slopes, spec)

    def lane(self, receiver: str, capacity: int, rng: random.Random) -> DrrWredLane:
        """An empty lane for ``capacity`` messages; refusals are drawn from ``rng``."""
        return DrrWredLane(self.classes, capacity, rng)
