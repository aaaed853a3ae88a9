"""The ledger: who has put aside and spent what. Event-sourced, synchronous, integers only.

Every change is an entry; state is nothing but the entries applied in order, so ``Ledger.replay``
rebuilds it exactly. Two-phase like a bank transfer: ``reserve`` holds an amount in all scopes or in
none, ``settle`` replaces the hold by the actual amount, once. Time comes in as integer milliseconds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from heapq import heappop
from typing import Final

from ..errors import BudgetStoreError, LedgerError
from ..interfaces.budget import Denied
from .account import Account, amount, check_limits
from .books import Books
from .entries import (
    Entry,
    EntryLog,
    Expired,
    Leased,
    Opened,
    Renewed,
    Reservation,
    Reserved,
    ScopeInstance,
    Settled,
    Settlement,
)

_logger = logging.getLogger(__name__)

FOREVER: Final = 1 << 62
"""A moment, in milliseconds, after every reservation's end."""
RECOVERING: Final = "ledger_recovering"


class Ledger(Books):
    """Balances of scope instances. ``ttl_ms`` is how long a reservation lives unless it is renewed.

    The invariant (I4): in every scope used + reserved <= limit at every step, as long as no settlement
    exceeds its reservation. One that does is counted in full, listed in ``violations``, and a scope
    above its limit refuses everything, even calls that cost nothing. Threads may share a ledger.

    ``blocked`` is empty, or says why every reservation is refused (as ``policy:...`` of ``ledger``): the ledger is
    being rebuilt, or its log failed. After a failure, what was reserved before can be settled all the same.
    """

    def __init__(self, *, ttl_ms: int = 10_000) -> None:
        super().__init__()
        self.ttl_ms = amount(ttl_ms, "ttl_ms")
        self.blocked = ""
        self._lock = threading.RLock()
        self._log: EntryLog | None = None

    @classmethod
    def replay(cls, entries: Iterable[Entry], *, ttl_ms: int = 10_000) -> Ledger:
        """The ledger that wrote these entries. Raises LedgerError when they do not fit together."""
        ledger = cls(ttl_ms=ttl_ms)
        ledger.rebuild(entries)
        return ledger

    def rebuild(self, entries: Iterable[Entry], log: EntryLog | None = None) -> None:
        """Become, from nothing, the ledger that wrote these entries; later ones also go to ``log``.

        Until it is done, and for good when it fails, every reservation is refused. Raises LedgerError when there is
        something already, or the entries do not fit together.
        """
        with self._lock:
            if self._entries or self.blocked:
                raise LedgerError("only an empty ledger can be rebuilt")
            self.blocked = RECOVERING
        try:
            for entry in entries:  # without the lock: other threads are refused meanwhile, and need not wait
                self._write(entry)
        except BaseException:
            self.blocked = "ledger_damaged"
            raise
        self._log = log
        self.blocked = ""

    def close(self) -> None:
        """Give the log free, if there is one; every later reservation is refused. Idempotent."""
        if self._log is not None:
            self.blocked = self.blocked or "closed"
            self._log.close()

    # --- changes --------------------------------------------------------------------------------

    def reserve(
        self, scopes: Sequence[ScopeInstance], tokens: int, ms: int = 0, *, now_ms: int = 0
    ) -> Reservation | Denied:
        """Put an amount aside in all scopes at once, or in none and say why.

        Raises LedgerError for an amount that is no integer >= 0, a scope named twice, or a scope whose parent is
        not reserved with it.
        """
        amount(tokens, "tokens")
        amount(ms, "ms")
        with self._lock:
            if self.blocked:
                return Denied({"ledger": f"policy:{self.blocked}"}, {}, tokens)
            if self._due and now_ms >= self._due[0][0]:
                self.expire(now_ms)
            ids = tuple([scope.id for scope in scopes])
            accounts = self._groups.get(ids)
            if accounts is None:
                accounts = self._grouped(ids, scopes)
            for scope in scopes:
                if scope.parent is not None and scope.parent not in ids:
                    raise LedgerError(f"scope {scope.id} is reserved without its parent {scope.parent}")
            for account in accounts:
                if account.refusal(tokens, ms):
                    return self._refused(accounts, tokens, ms)
            reservation = Reservation(f"r{self._last + 1}", ids, tokens, ms, now_ms + self.ttl_ms)
            entry = Reserved(reservation)
            if self._log is not None and not self._logged(entry):
                return Denied({"ledger": f"policy:{self.blocked}"}, {}, tokens)
            self._write(entry)
            return reservation

    def settle(self, reservation_id: str, tokens: int, ms: int = 0) -> Settlement:
        """Replace a reservation by what was used, once: a second call changes nothing and returns the first result.

        Raises LedgerError for an unknown reservation or an amount that is no integer >= 0.
        """
        amount(tokens, "tokens")
        amount(ms, "ms")
        with self._lock:
            self._ready()
            if (done := self._settled.get(reservation_id)) is not None:
                return done
            if reservation_id not in self._open:
                self._known(self._expired, reservation_id)
            entry = Settled(reservation_id, tokens, ms)
            self._logged(entry)
            self._write(entry)
            return self._settled[reservation_id]

    def release(self, reservation_id: str) -> Settlement:
        """Settle at nothing: the call was never made."""
        return self.settle(reservation_id, 0, 0)

    def renew(self, reservation_id: str, now_ms: int) -> bool:
        """Let a live reservation live another ``ttl_ms`` from now; false when it has expired or been settled.

        Raises LedgerError for an unknown reservation.
        """
        with self._lock:
            self._ready()
            self.expire(now_ms)
            if reservation_id in self._open:
                entry = Renewed(reservation_id, now_ms + self.ttl_ms)
                self._logged(entry)
                self._write(entry)
                return True
            if reservation_id not in self._expired and reservation_id not in self._settled:
                raise LedgerError(f"unknown reservation {reservation_id!r}")
            return False

    def expire(self, now_ms: int) -> tuple[str, ...]:
        """Debit in full every reservation whose time is over; returns their ids."""
        gone = []
        with self._lock:
            self._ready()
            while self._due and self._due[0][0] <= now_ms:
                moment, _, reservation_id = heappop(self._due)
                reservation = self._open.get(reservation_id)
                if reservation is not None and reservation.expires_ms == moment:
                    entry = Expired(reservation_id)
                    self._logged(entry)
                    self._write(entry)
                    gone.append(reservation_id)
        return tuple(gone)

    def lease(self, scope_id: str, tokens: int) -> bool:
        """The scope's tranche is now ``tokens`` in all; false when it was as large already: a tranche never shrinks.

        Raises LedgerError for a scope that was never used or has no ceiling of tokens, and for no integer >= 0.
        """
        amount(tokens, "tokens")
        with self._lock:
            self._ready()
            held = self.balance(scope_id).limits.tokens
            if held is None:
                raise LedgerError(f"scope {scope_id!r} has no ceiling to lease from")
            if tokens <= held:
                return False
            entry = Leased(scope_id, tokens)
            self._logged(entry)
            self._write(entry)
            return True

    # --- the log ---------------------------------------------------------------------------------

    def _ready(self) -> None:
        if self.blocked == RECOVERING:
            raise LedgerError("the ledger is being rebuilt", "wait until it is done")

    def _grouped(self, ids: tuple[str, ...], scopes: Sequence[ScopeInstance]) -> tuple[Account, ...]:
        for scope in scopes:
            if scope.id not in self._accounts:
                self._opened(scope)
        if len(set(ids)) != len(ids):
            raise LedgerError(f"a scope is named twice: {', '.join(ids)}")
        return self._group(ids)

    @staticmethod
    def _refused(accounts: Sequence[Account], tokens: int, ms: int) -> Denied:
        reasons = {a.scope.name: refusal for a in accounts if (refusal := a.refusal(tokens, ms))}
        left = {a.scope.name: left for a in accounts if (left := a.balance().remaining) is not None}
        return Denied(reasons, left, tokens)

    def _opened(self, scope: ScopeInstance) -> Account:
        check_limits(scope.limits)
        entry = Opened(scope)
        self._logged(entry)
        self._write(entry)
        return self._accounts[scope.id]

    def _logged(self, entry: Entry) -> bool:
        """Whether the entry is where it outlives the process, or there is no such place. A failure is for good."""
        if self._log is None:
            return True
        if not self.blocked:
            try:
                self._log.append(entry)
                return True
            except BudgetStoreError as error:
                self.blocked = error.reason
                _logger.error("the ledger's log failed, so nothing more is granted: %s", error)
        return False
