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


class DrrWredLane:
    """A bounded lane of three first-in-first-out queues. Every method is O(1), ``iter`` O(waiting).

    A message of no known class is served and refused as the least urgent one.
    """

    __slots__ = (
        "_arrivals",
        "_by_class",
        "_capacity",
        "_classes",
        "_credit",
        "_queues",
        "_random",
        "_turn",
        "_waiting",
    )

    def __init__(self, classes: tuple[ServiceClass, ...], capacity: int, rng: random.Random) -> None:
        self._classes = classes
        self._capacity = capacity
        self._random = rng.random
        self._queues = tuple(_Queue(c, capacity) for c in classes)
        self._by_class = {c.name: queue for c, queue in zip(classes, self._queues, strict=True)}
        self._turn = 0
        self._credit = classes[0].weight
        """Messages that the class whose turn it is may still have in this round."""
        self._waiting = 0
        self._arrivals = 0

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
        self._arrivals = arrival = self._arrivals + 1
        queue.messages.append(message)
        queue.arrivals.append(arrival)
        return _ENQUEUED

    def restore(self, message: Message) -> None:
        """Append to its class, regardless of capacity and chance."""
        queue = self._queue(message)
        self._waiting += 1
        self._arrivals = arrival = self._arrivals + 1
        queue.messages.append(message)
        queue.arrivals.append(arrival)

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
        queue.arrivals.popleft()
        return queue.messages.popleft()

    def __len__(self) -> int:
        return self._waiting

    def __iter__(self) -> Iterator[Message]:
        waiting = [
            pair for queue in self._queues for pair in zip(queue.arrivals, queue.messages, strict=True)
        ]  # fmt: skip
        waiting.sort(key=lambda pair: pair[0])
        return iter([message for _, message in waiting])

    def _queue(self, message: Message) -> _Queue:
        try:
            return self._by_class[message.priority]
        except (KeyError, TypeError):
            return self._queues[-1]


class _Queue:
    """What waits of one class, and with each message its place in the order of arrival."""

    __slots__ = ("arrivals", "free", "messages", "service")

    def __init__(self, service: ServiceClass, capacity: int) -> None:
        self.service = service
        self.messages: deque[Message] = deque()
        self.arrivals: deque[int] = deque()
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
