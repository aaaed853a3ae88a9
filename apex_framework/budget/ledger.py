"""The ledger: who has put aside and spent what. Event-sourced, synchronous, integers only.

Every change is an entry; state is nothing but the entries applied in order, so ``Ledger.replay``
rebuilds it exactly. Two-phase like a bank transfer: ``reserve`` holds an amount in all scopes or in
none, ``settle`` replaces the hold by the actual amount, once. Time comes in as integer milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import LedgerError
from ..interfaces.budget import Denied
from .account import Account, amount, check_limits
from .entries import (
    Balance,
    Entry,
    Expired,
    Opened,
    Renewed,
    Reservation,
    Reserved,
    ScopeInstance,
    Settled,
    Settlement,
    Violation,
)

_NEVER = 1 << 62


class Ledger:
    """Balances of scope instances. ``ttl_ms`` is how long a reservation lives unless it is renewed.

    The invariant (I4): in every scope used + reserved <= limit at every step, as long as no settlement
    exceeds its reservation. One that does is counted in full, listed in ``violations``, and a scope
    above its limit refuses everything, even calls that cost nothing.
    """

    def __init__(self, *, ttl_ms: int = 10_000) -> None:
        self.ttl_ms = amount(ttl_ms, "ttl_ms")
        self._entries: list[Entry] = []
        self._accounts: dict[str, Account] = {}
        self._open: dict[str, Reservation] = {}
        self._expired: dict[str, Reservation] = {}
        self._settled: dict[str, Settlement] = {}
        self._violations: list[Violation] = []
        self._last = 0
        self._due_ms = _NEVER

    @classmethod
    def replay(cls, entries: Iterable[Entry], *, ttl_ms: int = 10_000) -> Ledger:
        """The ledger that wrote these entries. Raises LedgerError when they do not fit together."""
        ledger = cls(ttl_ms=ttl_ms)
        for entry in entries:
            ledger._write(entry)
        return ledger

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
        if now_ms >= self._due_ms:
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
                reasons, {a.scope.name: left for a in accounts if (left := a.balance().remaining) is not None}, tokens
            )
        reservation = Reservation(f"r{self._last + 1}", ids, tokens, ms, now_ms + self.ttl_ms)
        self._write(Reserved(reservation))
        return reservation

    def settle(self, reservation_id: str, tokens: int, ms: int = 0) -> Settlement:
        """Replace a reservation by what was used, once: a second call changes nothing and returns the first result.

        Raises LedgerError for an unknown reservation or an amount that is no integer >= 0.
        """
        amount(tokens, "tokens")
        amount(ms, "ms")
        if (done := self._settled.get(reservation_id)) is not None:
            return done
        self._write(Settled(reservation_id, tokens, ms))
        return self._settled[reservation_id]

    def release(self, reservation_id: str) -> Settlement:
        """Settle at nothing: the call was never made."""
        return self.settle(reservation_id, 0, 0)

    def renew(self, reservation_id: str, now_ms: int) -> bool:
        """Let a live reservation live another ``ttl_ms`` from now; false when it has expired or been settled.

        Raises LedgerError for an unknown reservation.
        """
        self.expire(now_ms)
        if reservation_id in self._open:
            self._write(Renewed(reservation_id, now_ms + self.ttl_ms))
            return True
        if reservation_id not in self._expired and reservation_id not in self._settled:
            raise LedgerError(f"unknown reservation {reservation_id!r}")
        return False

    def expire(self, now_ms: int) -> tuple[str, ...]:
        """Debit in full every reservation whose time is over; returns their ids."""
        due = tuple([r.id for r in self._open.values() if r.expires_ms <= now_ms])
        for reservation_id in due:
            self._write(Expired(reservation_id))
        self._due_ms = min((r.expires_ms for r in self._open.values()), default=_NEVER)
        return due

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
        """Tokens that a scope instance has left; None without a limit."""
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
        return sum(isinstance(e, Expired) for e in self._entries)

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

    def _opened(self, scope: ScopeInstance) -> Account:
        self._write(Opened(scope))
        return self._accounts[scope.id]

    def _write(self, entry: Entry) -> None:
        """Change the state by one entry and keep it: the only place where anything changes."""
        match entry:
            case Reserved(reservation):
                self._hold(reservation, 1)
                self._open[reservation.id] = reservation
                self._last += 1
                self._due_ms = min(self._due_ms, reservation.expires_ms)
            case Settled(reservation_id, tokens, ms):
                self._settle(reservation_id, tokens, ms)
            case Opened(scope):
                check_limits(scope.limits)
                self._accounts[scope.id] = Account(scope)
            case Renewed(reservation_id, expires_ms):
                old = self._known(self._open, reservation_id)
                self._open[reservation_id] = Reservation(old.id, old.scopes, old.tokens, old.ms, expires_ms)
            case Expired(reservation_id):
                reservation = self._known(self._open, reservation_id)
                del self._open[reservation_id]
                self._hold(reservation, -1)
                self._spend(reservation, reservation.tokens, reservation.ms)
                self._expired[reservation_id] = reservation
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
