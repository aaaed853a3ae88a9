"""Budgets: the ledger that counts, the guard that asks it, the estimates it is asked with."""

from .entries import Balance, Entry, Reservation, ScopeInstance, Settlement, Violation
from .estimates import Durations, Estimate, estimate
from .guard import Grant, Guard
from .ledger import Ledger
from .log import open_ledger
from .settings import BudgetSettings

__all__ = [
    "Balance",
    "BudgetSettings",
    "Durations",
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
    "open_ledger",
]
