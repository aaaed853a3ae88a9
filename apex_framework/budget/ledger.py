"""The ledger: who has put aside and spent what. Event-sourced, synchronous, integers only.

Every change is an entry; state is nothing but the entries applied in order, so ``Ledger.replay``
rebuilds it exactly. Two-phase like a bank transfer: ``reserve`` holds an amount in all scopes or in
none, ``settle`` replaces the hold by the actual amount, once. Time comes in as integer milliseconds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, Final

from ..errors import BudgetStoreError, LedgerError
from ..interfaces.budget import Denied
from .account import Account, amount, check_limits
from .entries import (
    Balance,
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
    Violation,
)

_logger = logging.getLogger(__name__)

FOREVER: Final = 1 << 62
"""A moment, in milliseconds, after every reservation's end."""
RECOVERING: Final = "ledger_recovering"


class Ledger:
    """Balances of scope instances. ``ttl_ms`` is how long a reservation lives unless it is renewed.

    The invariant (I4): in every scope used + reserved <= limit at every step, as long as no settlement
    exceeds its reservation. One that does is counted in full, listed in ``violations``, and a scope
    above its limit refuses everything, even calls that cost nothing. Threads may share a ledger.

    ``blocked`` is empty, or says why every reservation is refused (as ``policy:...`` of ``ledger``): the ledger is
    being rebuilt, or its log failed. After a failure, what was reserved before can be settled all the same.
    """

    def __init__(self, *, ttl_ms: int = 10_000) -> None:
        self.ttl_ms = amount(ttl_ms, "ttl_ms")
        self.blocked = ""
        self._lock = threading.RLock()
        self._log: EntryLog | None = None
        self._entries: list[Entry] = []
        self._accounts: dict[str, Account] = {}
        self._open: dict[str, Reservation] = {}
        self._expired: dict[str, Reservation] = {}
        self._settled: dict[str, Settlement] = {}
        self._violations: list[Violation] = []
        self._last = 0
        self._expiries = 0
        self._due: list[tuple[int, int, str]] = []
        """Heap of (moment, number, reservation); renewed and settled ones leave stale items behind."""

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
            accounts = [self._accounts.get(scope.id) or self._opened(scope) for scope in scopes]
            ids = tuple([a.scope.id for a in accounts])
            if len(set(ids)) != len(ids):
                raise LedgerError(f"a scope is named twice: {', '.join(ids)}")
            reasons: dict[str, str] = {}
            for scope, account in zip(scopes, accounts, strict=True):
                if scope.parent is not None and scope.parent not in ids:
                    raise LedgerError(f"scope {scope.id} is reserved without its parent {scope.parent}")
                if refusal := account.refusal(tokens, ms):
                    reasons[account.scope.name] = refusal
            if reasons:
                return Denied(
                    reasons,
                    {a.scope.name: left for a in accounts if (left := a.balance().remaining) is not None},
                    tokens,
                )
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

    # --- questions ------------------------------------------------------------------------------

    def balance(self, scope_id: str) -> Balance:
        """State of one scope instance (``name:key``). Raises LedgerError when it was never used."""
        a = self._accounts.get(scope_id)
        if a is None:
            raise LedgerError(f"unknown scope {scope_id!r}")
        return a.balance()

    def knows(self, scope_id: str) -> bool:
        """Whether a scope instance has been used."""
        return scope_id in self._accounts

    def used(self, scope_id: str) -> int:
        """Tokens spent in a scope instance, expired reservations included."""
        return self.balance(scope_id).used

    def reserved(self, scope_id: str) -> int:
        """Tokens put aside in a scope instance."""
        return self.balance(scope_id).reserved

    def remaining(self, scope_id: str) -> int | None:
        """Tokens that a scope instance itself has left, whatever its parent has; None without a limit."""
        return self.balance(scope_id).remaining

    def headroom(self, scope_id: str) -> float:
        """Share of a scope instance's tokens that is left, in [0, 1]."""
        return self.balance(scope_id).headroom

    @property
    def scopes(self) -> tuple[str, ...]:
        """Ids of all scope instances in order of first use."""
        return tuple(self._accounts)

    @property
    def open(self) -> tuple[Reservation, ...]:
        """Reservations neither settled nor expired."""
        return tuple(self._open.values())

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Everything that happened, in order."""
        return tuple(self._entries)

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Settlements above their reservation, per scope that bounds what was exceeded."""
        return tuple(self._violations)

    @property
    def expired(self) -> int:
        """Reservations that ever expired (``reservation_expired_total``)."""
        return self._expiries

    def state(self) -> dict[str, Any]:
        """Everything that later answers depend on, for comparison."""
        return {
            "balances": {scope_id: self.balance(scope_id) for scope_id in self._accounts},
            "open": dict(self._open),
            "expired": dict(self._expired),
            "settled": dict(self._settled),
            "violations": self.violations,
            "last": self._last,
        }

    # --- entries applied ------------------------------------------------------------------------

    def _ready(self) -> None:
        if self.blocked == RECOVERING:
            raise LedgerError("the ledger is being rebuilt", "wait until it is done")

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

    def _write(self, entry: Entry) -> None:
        """Change the state by one entry and keep it: the only place where anything changes."""
        match entry:
            case Reserved(reservation):
                self._hold(reservation, 1)
                self._open[reservation.id] = reservation
                self._last += 1
                heappush(self._due, (reservation.expires_ms, self._last, reservation.id))
            case Settled(reservation_id, tokens, ms):
                self._settle(reservation_id, tokens, ms)
            case Opened(scope):
                check_limits(scope.limits)
                self._accounts[scope.id] = Account(scope)
            case Leased(scope_id, tokens):
                self._known(self._accounts, scope_id).lease(tokens)
            case Renewed(reservation_id, expires_ms):
                old = self._known(self._open, reservation_id)
                self._open[reservation_id] = Reservation(old.id, old.scopes, old.tokens, old.ms, expires_ms)
                heappush(self._due, (expires_ms, len(self._entries), reservation_id))
            case Expired(reservation_id):
                reservation = self._known(self._open, reservation_id)
                del self._open[reservation_id]
                self._hold(reservation, -1)
                self._spend(reservation, reservation.tokens, reservation.ms)
                self._expired[reservation_id] = reservation
                self._expiries += 1
        self._entries.append(entry)

    def _settle(self, reservation_id: str, tokens: int, ms: int) -> None:
        late = reservation_id in self._expired
        reservation = self._known(self._expired if late else self._open, reservation_id)
        if late:
            del self._expired[reservation_id]
            self._spend(reservation, tokens - reservation.tokens, ms - reservation.ms)
        else:
            del self._open[reservation_id]
            self._hold(reservation, -1)
            self._spend(reservation, tokens, ms)
        over, over_ms = max(0, tokens - reservation.tokens), max(0, ms - reservation.ms)
        self._settled[reservation_id] = Settlement(reservation_id, tokens, ms, over, late)
        if over or over_ms:
            self._note(reservation, over, over_ms)

    def _note(self, reservation: Reservation, over: int, over_ms: int) -> None:
        for scope_id in reservation.scopes:
            a = self._accounts[scope_id]
            tokens = 0 if a.limits.tokens is None else over
            ms = 0 if a.limits.ms is None else over_ms
            if tokens or ms:
                beyond = 0 if a.limits.tokens is None else max(0, a.used - a.limits.tokens)
                self._violations.append(Violation(reservation.id, scope_id, tokens, ms, beyond))

    def _hold(self, reservation: Reservation, sign: int) -> None:
        for scope_id in reservation.scopes:
            account = self._known(self._accounts, scope_id)
            account.reserved += sign * reservation.tokens
            account.reserved_ms += sign * reservation.ms

    def _spend(self, reservation: Reservation, tokens: int, ms: int) -> None:
        for scope_id in reservation.scopes:
            account = self._accounts[scope_id]
            account.used += tokens
            account.used_ms += ms

    @staticmethod
    def _known(things: dict[str, Any], name: str) -> Any:
        if (thing := things.get(name)) is None:
            raise LedgerError(f"unknown reservation or scope {name!r}")
        return thing
