"""Messages in motion: routes, router, epoch gate, switch engine, coordinator."""

from .coordinator import Coordinator, Deferred
from .envelope import Envelope
from .mailbox import Lease
from .record import RouterStats
from .router import Router
from .routes import Hop, Plan, RouteTable
from .switch import CommitRecord, SwitchEngine, SwitchResult, SwitchStats

__all__ = [
    "CommitRecord",
    "Coordinator",
    "Deferred",
    "Envelope",
    "Hop",
    "Lease",
    "Plan",
    "RouteTable",
    "Router",
    "RouterStats",
    "SwitchEngine",
    "SwitchResult",
    "SwitchStats",
]
