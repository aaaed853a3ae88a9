"""The ceiling of a calendar day, over every process on this machine that shares its file."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from apex_framework.errors import ConfigError
from apex_framework.interfaces import CallTags, Limits, Room, Tranche
from apex_framework.ports import Clock, SystemClock

from .shared import TTL_S, SharedCeiling

TOKENS = 5_000_000


class DayScope:
    """All calls of a ``group`` of runs take at most ``tokens`` in a day. Days are those of UTC: none has 25 hours.

    The day is the latest that any process with this ``store`` has seen, so a clock that goes back opens no day again.
    A call belongs to the day in which it was reserved. Without ``store`` it is ``budget.sqlite3`` in the user's state
    folder. Raises ConfigError for a ceiling that is no integer >= 1.
    """

    name = "day"
    parent: str | None = None

    def __init__(
        self,
        tokens: int = TOKENS,
        store: Path | None = None,
        *,
        group: str = "default",
        tranche: int | None = None,
        ttl_s: float = TTL_S,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(group, str) or not group:
            raise ConfigError(f"group of scope day must be a name, not {group!r}")
        self._group = group
        self._clock = clock or SystemClock()
        path = default_store() if store is None else store
        self._shared = SharedCeiling("day", tokens, path, tranche=tranche, ttl_s=ttl_s, clock=self._clock)
        self._lock = threading.Lock()
        self._latest = ""

    def key(self, tags: CallTags) -> str:
        """``group/2025-06-01``."""
        today = datetime.fromtimestamp(self._clock.wall(), UTC).date().isoformat()
        return f"{self._group}/{self._seen(today)}"

    def limits(self, tags: CallTags) -> Limits:
        return Limits(self._shared.tokens)

    def check(self) -> None:
        """Raises BudgetStoreError when the store cannot be used."""
        self._shared.check()

    def refill(self, key: str, tokens: int) -> Tranche:
        """Lease at least ``tokens`` more, or none; nothing of a day that is over. Raises BudgetStoreError."""
        day = key.removeprefix(f"{self._group}/")
        if self._seen(self._shared.store.newest("day", self._group, day)) > day:
            return self._shared.held(key)
        return self._shared.refill(key, tokens)

    def hand_back(self, key: str, used: int) -> None:
        """Free what was not spent. Raises BudgetStoreError."""
        self._shared.hand_back(key, used)

    def room(self, key: str) -> Room:
        """What is left of the latest day that anybody has seen, and when the next one begins. Raises BudgetStoreError."""
        day = self._seen(self._shared.store.newest("day", self._group, key.removeprefix(f"{self._group}/")))
        following = date.fromisoformat(day) + timedelta(days=1)
        return Room(self._shared.free(f"{self._group}/{day}"), f"{following} 00:00 UTC")

    def _seen(self, day: str) -> str:
        with self._lock:
            self._latest = max(self._latest, day)
            return self._latest


def default_store() -> Path:
    """Where the day's ceiling is kept when nobody says where."""
    from platformdirs import user_state_path

    return user_state_path("apex", appauthor=False) / "budget.sqlite3"
