"""Messages in motion: routes, router, epoch gate, switch engine, coordinator."""

from .coordinator import Coordinator, Deferred
from .envelope import Envelope
from .health import AgentHealth, HealthCache, ProbeResult, TopologyHealthProbe
from .journal import Journal, JournalSwitchLog, SwitchState, recovered_switch
from .mailbox import Lease
from .pinning import HealthPin
from .pressure import RetryBudget, Throttle
from .record import RouterStats
from .router import Router
from .routes import Hop, Plan, RouteTable
from .switch import AbortReason, SwitchEngine, SwitchResult, SwitchStats
from .switchlog import SwitchLog, SwitchRecord

__all__ = [
    "AbortReason",
    "AgentHealth",
    "Coordinator",
    "Deferred",
    "Envelope",
    "HealthCache",
    "HealthPin",
    "Hop",
    "Journal",
    "JournalSwitchLog",
    "Lease",
    "Plan",
    "ProbeResult",
    "RetryBudget",
    "RouteTable",
    "Router",
    "RouterStats",
    "SwitchEngine",
    "SwitchLog",
    "SwitchRecord",
    "SwitchResult",
    "SwitchState",
    "SwitchStats",
    "Throttle",
    "TopologyHealthProbe",
    "recovered_switch",
]
