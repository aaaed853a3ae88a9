"""The ceiling of a run, over all its workers, and over every time it is resumed."""

from __future__ import annotations

from pathlib import Path

from apex_framework.errors import ConfigError
from apex_framework.interfaces import CallTags, Limits, Room, Tranche
from apex_framework.ports import Clock, SystemClock

from .shared import TTL_S, SharedCeiling


class RunScope:
    """All calls of a run together take at most ``tokens``. ``store`` is a file in the run's folder.

    Raises ConfigError for a ceiling that is no integer >= 1, or is missing, or has no file.
    """

    name = "run"
    parent: str | None = None

    def __init__(
        self,
        tokens: int | None = None,
        store: Path | None = None,
        *,
        tranche: int | None = None,
        ttl_s: float = TTL_S,
        clock: Clock | None = None,
    ) -> None:
        if tokens is None or store is None:
            raise ConfigError(
                "scope run needs a ceiling of tokens and a file", "set run_budget, or leave out scope run"
            )
        self._shared = SharedCeiling("run", tokens, store, tranche=tranche, ttl_s=ttl_s, clock=clock or SystemClock())

    def key(self, tags: CallTags) -> str:
        return tags.run_id

    def limits(self, tags: CallTags) -> Limits:
        return Limits(self._shared.tokens)

    def check(self) -> None:
        """Raises BudgetStoreError when the store cannot be used."""
        self._shared.check()

    def refill(self, key: str, tokens: int) -> Tranche:
        """Lease at least ``tokens`` more, or none. Raises BudgetStoreError."""
        return self._shared.refill(key, tokens)

    def hand_back(self, key: str, used: int) -> None:
        """Free what was not spent. Raises BudgetStoreError."""
        self._shared.hand_back(key, used)

    def room(self, key: str) -> Room:
        """What is left of the run's ceiling. Raises BudgetStoreError."""
        return Room(self._shared.free(key))
