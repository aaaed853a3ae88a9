"""A circuit breaker: a backend that keeps failing is left alone, then asked one careful question.

(M. Nygard, Release It!, 2007: closed, open, half-open.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ..errors import ConfigError, Failure
from ..interfaces.llm import LLMBackend

NOT_ILL: Final = frozenset(
    {
        Failure.AUTH,
        Failure.NOT_FOUND,
        Failure.RATE_LIMITED,
        Failure.CONTEXT_EXCEEDED,
        Failure.CONTEXT_TRUNCATED,
        Failure.CIRCUIT_OPEN,
        Failure.CANCELLED,
    }
)
"""Failures by which a server answers as it should: they say nothing about its health."""


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """Opens after ``failures`` in a row; one probe after ``rest_s``, twice as long after each probe that fails."""

    failures: int = 5
    rest_s: float = 5.0
    most_rest_s: float = 60.0

    def __post_init__(self) -> None:
        if type(self.failures) is not int or self.failures < 1 or not 0 < self.rest_s <= self.most_rest_s:
            raise ConfigError(f"a breaker needs failures >= 1 and 0 < rest_s <= most_rest_s, not {self}")


class State(StrEnum):
    """Of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    """A probe is under way."""


class Breaker:
    """Counts one backend's failures; synchronous, times in seconds of any one clock.

    Each ``enter`` that gives a ticket is followed by one ``leave`` with it. Calls that began before the breaker changed
    its state say nothing about it any more.
    """

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self.state = State.CLOSED
        self.opened = 0
        """How often it opened."""
        self._failures = 0
        self._rest_s = settings.rest_s
        self._until = 0.0
        self._turn = 0

    def enter(self, now: float) -> int | None:
        """A ticket for a call, or None when the backend must be left alone."""
        if self.state is State.HALF_OPEN or (self.state is State.OPEN and now < self._until):
            return None
        if self.state is State.OPEN:
            self._become(State.HALF_OPEN)
        return self._turn

    def leave(self, ticket: int, ok: bool | None, now: float) -> None:
        """The call ended: well, badly, or (None) in a way that says nothing, e.g. cancelled."""
        if ticket != self._turn:
            return
        if self.state is State.HALF_OPEN:
            self._judge(ok, now)
        elif ok:
            self._failures = 0
        elif ok is False:
            self._failures += 1
            if self._failures >= self._settings.failures:
                self._open(now)

    def _judge(self, probe: bool | None, now: float) -> None:
        if probe:
            self._failures, self._rest_s = 0, self._settings.rest_s
            self._become(State.CLOSED)
        elif probe is None:
            self._become(State.OPEN)  # nothing was learned: the next call may probe at once
        else:
            self._rest_s = min(self._settings.most_rest_s, 2 * self._rest_s)
            self._open(now)

    def _open(self, now: float) -> None:
        self.opened += 1
        self._until = now + self._rest_s
        self._become(State.OPEN)

    def _become(self, state: State) -> None:
        self.state = state
        self._turn += 1


class Breakers:
    """One breaker for each backend.

    It may be used from one event loop after another, where their clocks go on as one: the machine's do, virtual ones do not.
    """

    def __init__(self, settings: BreakerSettings | None = None) -> None:
        self._settings = settings or BreakerSettings()
        self._each: dict[int, tuple[Callable[[], LLMBackend], Breaker]] = {}
        """By identity; the backend stays alive, so that no other has its id, and is reached by no attribute."""

    @property
    def opened(self) -> int:
        """How often all of them together opened."""
        return sum(breaker.opened for _, breaker in self._each.values())

    def of(self, backend: LLMBackend) -> Breaker:
        """The same one for the same object."""
        found = self._each.get(id(backend))
        if found is None:
            found = self._each[id(backend)] = (lambda: backend, Breaker(self._settings))
        return found[1]
