"""The state of a ledger: nothing but its entries, applied in order."""

from __future__ import annotations

from heapq import heappush
from typing import Any

from ..errors import LedgerError
from .account import Account, check_limits
from .entries import (
    Balance,
    Entry,
    Expired,
    Leased,
    Opened,
    Renewed,
    Reservation,
    Reserved,
    Settled,
    Settlement,
    Violation,
)


class Books:
    """Balances, reservations and settlements; ``_write`` is the only place where anything changes."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._accounts: dict[str, Account] = {}
        self._groups: dict[tuple[str, ...], tuple[Account, ...]] = {}
        """Scopes that are reserved together -> their accounts, found once."""
        self._open: dict[str, Reservation] = {}
        self._expired: dict[str, Reservation] = {}
        self._settled: dict[str, Settlement] = {}
        self._violations: list[Violation] = []
        self._last = 0
        self._expiries = 0
        self._due: list[tuple[int, int, str]] = []
        """Heap of (moment, number, reservation); renewed and settled ones leave stale items behind."""

    # --- questions ------------------------------------------------------------------------------

    def balance(self, scope_id: str) -> Balance:
        """State of one scope instance (``name:key``). Raises LedgerError when it was never used."""
        return self._account(scope_id).balance()

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
        return self._account(scope_id).remaining

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
                self._groups.clear()  # an account that is opened again is another one
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
            held, held_ms = reservation.tokens, reservation.ms
            for account in self._group(reservation.scopes):
                account.reserved -= held
                account.reserved_ms -= held_ms
                account.used += tokens
                account.used_ms += ms
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
        tokens, ms = sign * reservation.tokens, sign * reservation.ms
        for account in self._group(reservation.scopes):
            account.reserved += tokens
            account.reserved_ms += ms

    def _spend(self, reservation: Reservation, tokens: int, ms: int) -> None:
        for account in self._group(reservation.scopes):
            account.used += tokens
            account.used_ms += ms

    def _group(self, ids: tuple[str, ...]) -> tuple[Account, ...]:
        """Accounts of scopes. Raises LedgerError for one that was never used."""
        group = self._groups.get(ids)
        if group is None:
            group = self._groups[ids] = tuple([self._known(self._accounts, scope_id) for scope_id in ids])
        return group

    def _account(self, scope_id: str) -> Account:
        if (account := self._accounts.get(scope_id)) is None:
            raise LedgerError(f"unknown scope {scope_id!r}")
        return account

    @staticmethod
    def _known(things: dict[str, Any], name: str) -> Any:
        if (thing := things.get(name)) is None:
            raise LedgerError(f"unknown reservation or scope {name!r}")
        return thing
