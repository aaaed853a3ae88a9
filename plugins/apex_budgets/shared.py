"""What scopes have in common whose ceiling many processes share: a tranche per instance, leased from one file."""

from __future__ import annotations

import threading
from pathlib import Path

from apex_framework.errors import ConfigError
from apex_framework.interfaces import Tranche, ceiling
from apex_framework.ports import Clock, unique

from .store import SharedStore

TTL_S = 60.0
"""Seconds after a lease or its last refill from which its holder is taken for dead; its tranche was counted all along."""
_TRANCHES = 50
"""A tranche is one part in so many of the ceiling."""


class SharedCeiling:
    """Leases tranches of ``tokens`` in all, per instance, from a store. Threads may share it.

    Raises ConfigError for a ceiling or tranche that is no integer >= 1.
    """

    def __init__(
        self, scope: str, tokens: int, store: Path, *, tranche: int | None = None, ttl_s: float = TTL_S, clock: Clock
    ) -> None:
        self.tokens = ceiling(tokens, f"{scope}_budget", least=1)
        self.store = SharedStore(Path(store))
        self._scope = scope
        wanted = max(1, self.tokens // _TRANCHES) if tranche is None else tranche
        self._tranche = ceiling(wanted, f"tranche of scope {scope}", least=1)
        if not 0 < ttl_s < float("inf"):
            raise ConfigError(f"ttl_s of scope {scope} must be a positive number, not {ttl_s!r}")
        self._ttl_s = ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        self._holders: dict[str, str] = {}
        self._leased: dict[str, int] = {}

    def check(self) -> None:
        """Raises BudgetStoreError when the store cannot be used."""
        self.store.check()

    def refill(self, key: str, tokens: int) -> Tranche:
        """Lease at least ``tokens`` more, or none. Raises BudgetStoreError."""
        with self._lock:
            holder = self._holders.setdefault(key, unique(12).hex())
        leased, free = self.store.lease(
            self._scope,
            key,
            holder,
            need=tokens,
            tranche=self._tranche,
            ceiling=self.tokens,
            now=self._clock.wall(),
            ttl_s=self._ttl_s,
        )
        with self._lock:
            self._leased[key] = max(leased, self._leased.get(key, 0))
        return Tranche(leased, free)

    def free(self, key: str) -> int:
        """Tokens that nobody has leased or spent. Raises BudgetStoreError."""
        return self.store.free(self._scope, key, self.tokens)

    def held(self, key: str) -> Tranche:
        """What was leased of an instance from which nothing more can be had."""
        with self._lock:
            return Tranche(self._leased.get(key, 0), 0)

    def hand_back(self, key: str, used: int) -> None:
        """Free what was not spent; idempotent. Raises BudgetStoreError; then it may be tried again."""
        with self._lock:
            holder = self._holders.get(key)
        if holder is not None:
            self.store.settle(self._scope, key, holder, used)
            with self._lock:
                if self._holders.get(key) == holder:
                    del self._holders[key]
                    self._leased.pop(key, None)
