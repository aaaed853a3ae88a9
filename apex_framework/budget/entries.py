"""What the ledger writes down: scope instances, reservations, and the entries that rebuild it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..interfaces.budget import Limits


class _Identified:
    __slots__ = ("id",)
    id: str
    """Identity in the ledger, ``name:key``; made once, and no part of the value: every call reads it several times."""


@dataclass(frozen=True, slots=True)
class ScopeInstance(_Identified):
    """One ceiling in force, e.g. role ``coder`` of episode ``ep1``. ``parent`` is the id of the instance it nests in."""

    name: str
    key: str
    limits: Limits
    parent: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", f"{self.name}:{self.key}")

    def __reduce__(self) -> tuple[type[ScopeInstance], tuple[str, str, Limits, str | None]]:
        return ScopeInstance, (self.name, self.key, self.limits, self.parent)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Tokens and milliseconds put aside in every one of ``scopes`` (instance ids)."""

    id: str
    scopes: tuple[str, ...]
    tokens: int
    ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a reservation cost in the end. ``late``: it had expired, and its debit was replaced by the actual amount."""

    id: str
    tokens: int
    ms: int
    overspent: int = 0
    """Tokens above the reservation."""
    late: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """A settlement above its reservation, per scope. ``over_limit`` is how far that scope's use then exceeded its limit."""

    reservation: str
    scope: str
    tokens: int
    ms: int
    over_limit: int


@dataclass(frozen=True, slots=True)
class Balance:
    """Tokens and milliseconds of one scope instance; limits of None are no limits."""

    limits: Limits
    used: int
    reserved: int
    used_ms: int
    reserved_ms: int

    @property
    def remaining(self) -> int | None:
        """Tokens neither used nor reserved, not below 0; None without a limit."""
        return None if self.limits.tokens is None else max(0, self.limits.tokens - self.used - self.reserved)

    @property
    def headroom(self) -> float:
        """``remaining`` as a share of the limit in [0, 1]; 1 without a limit, 0 for a limit of 0."""
        if self.limits.tokens is None:
            return 1.0
        return (self.remaining or 0) / self.limits.tokens if self.limits.tokens else 0.0


@dataclass(frozen=True, slots=True)
class Opened:
    """A scope instance was used for the first time."""

    scope: ScopeInstance


@dataclass(frozen=True, slots=True)
class Leased:
    """The tranche of a shared ceiling that this ledger may spend is now so large, spent tokens included."""

    scope: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reservation was granted."""

    reservation: Reservation


@dataclass(frozen=True, slots=True)
class Renewed:
    """A live reservation lives longer."""

    id: str
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Expired:
    """Nobody renewed or settled a reservation in time: it counts as spent in full."""

    id: str


@dataclass(frozen=True, slots=True)
class Settled:
    """A reservation was replaced by what was really used."""

    id: str
    tokens: int
    ms: int


Entry = Opened | Leased | Reserved | Renewed | Expired | Settled
"""One line of the ledger's journal."""


class EntryLog(Protocol):
    """Where entries outlive the process."""

    def append(self, entry: Entry) -> None:
        """Write before the entry takes effect. Raises BudgetStoreError."""
        ...

    def close(self) -> None:
        """Give the place free; idempotent."""
        ...
