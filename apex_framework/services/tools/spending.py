"""Seconds for tools: ceilings per agent and per episode that calls at the same time cannot break together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

NOTHING_S = 1e-6
"""Less than this is nothing left."""


@dataclass(slots=True)
class _Purse:
    limit_s: float
    spent_s: float = 0.0
    running: int = 0
    since: float = 0.0

    def left(self, now: float) -> float:
        """Seconds left; calls under way spend at the same time."""
        self.spent_s += (now - self.since) * self.running
        self.since = now
        return max(0.0, self.limit_s - self.spent_s)


@dataclass(slots=True, eq=False)
class Spending:
    """One call under way; ``until`` is its own deadline."""

    purses: tuple[_Purse, ...]
    until: float
    timeout: asyncio.Timeout


@dataclass(slots=True)
class TimeBudget:
    """What tool calls may take in seconds of the event loop's clock. None: any time.

    While n calls are under way, what is left lasts an n-th of itself: whenever a call begins or ends, the deadlines of
    the others are set anew, so that together they stop when the ceiling is reached.
    """

    episode_s: float | None = None
    agent_s: float | None = None
    _purses: dict[str, _Purse] = field(default_factory=dict)
    _live: list[Spending] = field(default_factory=list)

    @property
    def bounded(self) -> bool:
        """Whether there is any ceiling."""
        return self.episode_s is not None or self.agent_s is not None

    def left(self, agent_id: str) -> float:
        """Seconds that an agent's next call could take alone; infinite without a ceiling."""
        if not self.bounded:
            return float("inf")
        now = asyncio.get_running_loop().time()
        return min(purse.left(now) for purse in self._of(agent_id, now))

    def begin(self, agent_id: str, until: float, timeout: asyncio.Timeout) -> Spending | None:
        """A call begins under ``timeout``, which has been entered; None when nothing bounds it."""
        if not self.bounded:
            return None
        now = asyncio.get_running_loop().time()
        spending = Spending(self._of(agent_id, now), until, timeout)
        self._live.append(spending)
        self._count(spending, 1, now)
        return spending

    def end(self, spending: Spending | None) -> None:
        """A call is over."""
        if spending is not None:
            self._live.remove(spending)
            self._count(spending, -1, asyncio.get_running_loop().time())

    def _of(self, agent_id: str, now: float) -> tuple[_Purse, ...]:
        limits = {"": self.episode_s, f"agent {agent_id}": self.agent_s}
        return tuple(
            self._purses.setdefault(name, _Purse(limit, since=now))
            for name, limit in limits.items()
            if limit is not None
        )

    def _count(self, spending: Spending, change: int, now: float) -> None:
        for purse in spending.purses:
            purse.left(now)
            purse.running += change
        for live in self._live:
            if not live.timeout.expired():
                ends = [now + purse.left(now) / max(1, purse.running) for purse in live.purses]
                live.timeout.reschedule(min(live.until, *ends))
