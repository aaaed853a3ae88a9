"""Lanes that break their contract, one way each."""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from apex_framework.interfaces import AgentID, Epoch, Message, RouteResult


class Honest:
    """First in, first out."""

    def __init__(self, capacity: int, rng: random.Random) -> None:
        self.capacity, self.rng = capacity, rng
        self.messages: deque[Message] = deque()

    def bad(self) -> bool:
        """Whether to misbehave this time."""
        return self.rng.random() < 0.2

    def offer(self, message: Message) -> Any:
        if len(self.messages) >= self.capacity:
            return RouteResult.FULL
        self.messages.append(message)
        return RouteResult.ENQUEUED

    def restore(self, message: Message) -> None:
        self.messages.append(message)

    def take(self) -> Any:
        return self.messages.popleft() if self.messages else None

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)


class Liar(Honest):
    """Says that nothing waits."""

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Message]:
        return iter(())


class LosesOffers(Honest):
    """Admits, and forgets."""

    def offer(self, message: Message) -> Any:
        return RouteResult.ENQUEUED if self.bad() else super().offer(message)


class LosesRestored(Honest):
    """Forgets what comes back."""

    def restore(self, message: Message) -> None:
        if not self.bad():
            super().restore(message)


class Invents(Honest):
    """Gives what nobody sent."""

    def take(self) -> Any:
        if self.bad():
            return Message("e", "invented", AgentID("x"), AgentID("y"), Epoch(0), {})
        return super().take()


class GivesNonsense(Honest):
    """Gives what is no message at all."""

    def take(self) -> Any:
        return "nonsense" if self.bad() else super().take()


class Repeats(Honest):
    """Gives the same message twice."""

    def take(self) -> Any:
        message = super().take()
        if message is not None and self.bad():
            self.messages.appendleft(message)
        return message


class Copies(Honest):
    """Gives a copy first, and the message afterwards."""

    def take(self) -> Any:
        message = super().take()
        if message is not None and self.bad():
            self.messages.appendleft(message)
            return copy.copy(message)
        return message


class KeepsRefused(Honest):
    """Refuses, and gives it all the same."""

    def offer(self, message: Message) -> Any:
        if self.bad():
            self.messages.append(message)
            return RouteResult.WRED
        return super().offer(message)


class Withholds(Honest):
    """Gives nothing although something waits."""

    def take(self) -> Any:
        return None if self.bad() else super().take()


class RaisesOnOffer(Honest):
    """Raises when asked to admit, having admitted."""

    def offer(self, message: Message) -> Any:
        answer = super().offer(message)
        if self.bad():
            raise ZeroDivisionError("offer")
        return answer


class RaisesOnTake(Honest):
    """Raises when asked to serve, and has lost the message."""

    def take(self) -> Any:
        message = super().take()
        if self.bad():
            raise ZeroDivisionError("take")
        return message


class RaisesOnRestore(Honest):
    """Raises when something comes back."""

    def restore(self, message: Message) -> None:
        if self.bad():
            raise ZeroDivisionError("restore")
        super().restore(message)


class AnswersNonsense(Honest):
    """Answers with the right word of the wrong type, or with a result that is not a lane's to give."""

    def offer(self, message: Message) -> Any:
        answer = super().offer(message)
        return self.rng.choice([True, "enqueued", None, RouteResult.POLICY]) if self.bad() else answer


class Boundless(Honest):
    """Never full."""

    def offer(self, message: Message) -> Any:
        self.messages.append(message)
        return RouteResult.ENQUEUED


class Discipline:
    """Makes lanes of one class."""

    def __init__(self, kind: Callable[[int, random.Random], Honest]) -> None:
        self.kind = kind
        self.name = "hostile"

    def lane(self, receiver: str, capacity: int, rng: random.Random) -> Honest:
        return self.kind(capacity, random.Random(rng.random()))


class FailsLater(Discipline):
    """Cannot make a lane once the team is at work."""

    def __init__(self) -> None:
        super().__init__(Honest)
        self.made = 0

    def lane(self, receiver: str, capacity: int, rng: random.Random) -> Honest:
        self.made += 1
        if self.made > 5:
            raise ZeroDivisionError("lane")
        return super().lane(receiver, capacity, rng)


NAMED = (
    LosesOffers,
    LosesRestored,
    Invents,
    GivesNonsense,
    Repeats,
    Copies,
    KeepsRefused,
    Withholds,
    RaisesOnOffer,
    RaisesOnTake,
    RaisesOnRestore,
    AnswersNonsense,
)
"""Found out when they are asked: a PluginError names them."""
HARMLESS = (Honest, Liar, Boundless)
"""What they get wrong, nobody asks them."""
