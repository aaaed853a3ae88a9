"""Budgets: the ledger that counts, the guard that asks it, the estimates it is asked with."""

from .entries import Balance, Entry, Reservation, ScopeInstance, Settlement, Violation
from .estimates import Estimate, estimate
from .guard import Grant, Guard
from .ledger import Ledger

__all__ = [
    "Balance",
    "Entry",
    "Estimate",
    "Grant",
    "Guard",
    "Ledger",
    "Reservation",
    "ScopeInstance",
    "Settlement",
    "Violation",
    "estimate",
]
