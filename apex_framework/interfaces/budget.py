"""Budget scopes: which ceilings a call must respect, all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from ..errors import ConfigError

MOST_TOKENS: Final = 10**12
"""A ceiling above this, in tokens or milliseconds, is a mistake."""


def ceiling(value: object, what: str, *, least: int = 0) -> int:
    """``value``, a ceiling that somebody set. Raises ConfigError unless it is an integer from ``least`` to MOST_TOKENS.

    Nothing is no number and no ceiling at all: None, NaN, infinity, a float, a bool and a text are refused.
    """
    if type(value) is not int or not least <= value <= MOST_TOKENS:
        remedy = "leave it out where nothing is to be bounded" if value is None else "write digits only"
        raise ConfigError(f"{what} must be an integer from {least} to {MOST_TOKENS}, not {value!r}", remedy)
    return value


@dataclass(frozen=True, slots=True)
class CallTags:
    """Who makes a call, in the words that scopes are keyed by."""

    run_id: str
    episode_id: str
    agent_id: str
    role: str
    token_budget: int
    """The episode's token budget, as planned for this arm."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings of one scope instance; None means that this quantity is not bounded here."""

    tokens: int | None = None
    ms: int | None = None


@runtime_checkable
class BudgetScope(Protocol):
    """A kind of ceiling: per episode, per role, per run, per day."""

    @property
    def name(self) -> str:
        """Name under which it is registered; shown in denials."""
        ...

    @property
    def parent(self) -> str | None:
        """Name of the scope that this one nests in, or None."""
        ...

    def key(self, tags: CallTags) -> str:
        """Identity of the instance that a call counts against, e.g. ``"ep1/coder"``."""
        ...

    def limits(self, tags: CallTags) -> Limits:
        """Ceilings of that instance. Pure; called when the instance is first used."""
        ...


@dataclass(frozen=True, slots=True)
class Tranche:
    """The part of a shared ceiling that one holder may spend without asking anybody."""

    leased: int
    """Tokens leased to this holder so far, spent ones included: a total, so an answer that was lost is in the next."""
    free: int
    """Tokens that nobody had leased or spent, just afterwards."""


@runtime_checkable
class Refills(Protocol):
    """Optional ability of a scope: it holds a tranche of a ceiling that it shares with other processes.

    Its ``limits`` name the whole ceiling. All three methods may block, for seconds at most: the guard calls them off
    the event loop. They raise ApexError when the ceiling cannot be reached; a call is then denied.
    """

    def check(self) -> None:
        """Raise, before any work begins, what would make every refill fail."""
        ...

    def refill(self, key: str, tokens: int) -> Tranche:
        """Lease at least ``tokens`` more for an instance, or, where so many are not left, none.

        What was leased counts as spent for everybody else, at once and durably.
        """
        ...

    def hand_back(self, key: str, used: int) -> None:
        """This holder is done with an instance, of which it has spent ``used``: the rest is free again.

        More than was leased is counted in full. Once per holder and instance; again, it changes nothing.
        """
        ...


@dataclass(frozen=True, slots=True)
class Room:
    """What is free of a shared ceiling now. ``reopens`` says when there is more by itself; empty: never."""

    tokens: int
    reopens: str = ""


@runtime_checkable
class TellsRoom(Protocol):
    """Optional ability of a scope that refills: say what is free, and lease nothing."""

    def room(self, key: str) -> Room:
        """What nobody has leased or spent. May block, for seconds at most. Raises ApexError when it cannot be known."""
        ...


@dataclass(frozen=True, slots=True)
class Denied:
    """The answer to a call that the budget refuses: an answer, not an error."""

    reasons: dict[str, str]
    """Scope name -> ``tok_headroom``, ``ms_headroom`` or ``policy:...``."""
    remaining: dict[str, int]
    """Scope name -> tokens that are left there."""
    estimate: int
    """Tokens that the call would have reserved."""
