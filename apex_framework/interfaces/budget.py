"""Budget scopes: which ceilings a call must respect, all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


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


@runtime_checkable
class Refills(Protocol):
    """Optional ability of a scope: it holds a tranche of a larger, shared ceiling and can draw more."""

    async def refill(self, key: str, tokens: int) -> int:
        """Lease about ``tokens`` more for an instance, off the hot path; returns what was granted."""
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
