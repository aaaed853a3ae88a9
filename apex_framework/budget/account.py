"""The mutable state of one scope instance, and what may be written into it."""

from __future__ import annotations

from ..errors import LedgerError
from ..interfaces.budget import Limits
from .entries import Balance, ScopeInstance


class Account:
    """Tokens and milliseconds used and reserved in one scope instance; only the ledger changes them."""

    __slots__ = ("limits", "reserved", "reserved_ms", "scope", "used", "used_ms")

    def __init__(self, scope: ScopeInstance) -> None:
        self.scope = scope
        self.limits = scope.limits
        self.used = self.reserved = self.used_ms = self.reserved_ms = 0

    def refusal(self, tokens: int, ms: int) -> str:
        """Why this amount does not fit (``tok_headroom``, ``ms_headroom``), or an empty text."""
        limit = self.limits.tokens
        if limit is not None and self.used + self.reserved + tokens > limit:
            return "tok_headroom"
        limit = self.limits.ms
        if limit is not None and self.used_ms + self.reserved_ms + ms > limit:
            return "ms_headroom"
        return ""

    @property
    def remaining(self) -> int | None:
        """Tokens neither used nor reserved, not below 0; None without a limit."""
        limit = self.limits.tokens
        return None if limit is None else max(0, limit - self.used - self.reserved)

    def lease(self, tokens: int) -> None:
        """So much of a shared ceiling may be spent here now."""
        self.limits = Limits(tokens, self.limits.ms)

    def balance(self) -> Balance:
        """A picture of the present state."""
        return Balance(self.limits, self.used, self.reserved, self.used_ms, self.reserved_ms)


def amount(value: int, what: str) -> int:
    """The value. Raises LedgerError unless it is an integer >= 0; a bool is none."""
    if type(value) is not int or value < 0:
        raise LedgerError(f"{what} must be an integer >= 0, not {value!r}")
    return value


def check_limits(limits: Limits) -> None:
    """Raises LedgerError unless each limit is None or an integer >= 0."""
    for what, value in (("tokens", limits.tokens), ("ms", limits.ms)):
        if value is not None:
            amount(value, f"limit of {what}")
