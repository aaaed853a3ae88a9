"""APEX: small teams of LLM agents on software tasks under a hard budget, whose communication topology can change.

Everything public can be imported from here; each name is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .budget import Guard, Ledger
    from .catalog import Catalog, Entry, Owner
    from .errors import (
        ApexError,
        ArtifactError,
        BackendError,
        BudgetTooSmallError,
        CarrierClosedError,
        ConfigError,
        EnvironmentProblem,
        JournalError,
        LedgerError,
        MissingExtraError,
        NameTakenError,
        NotComparableError,
        PayloadError,
        PayloadTooLargeError,
        PlanChangedError,
        PluginError,
        RunFolderError,
        RuntimeFault,
        StoreError,
        SuiteError,
        UnknownNameError,
        UsageError,
        WorkspaceError,
    )
    from .events import (
        CallDenied,
        CallSettled,
        DecisionTaken,
        EpisodeFinished,
        EpisodeStarted,
        Event,
        HealthPinned,
        LoopStalled,
        MessageMoved,
        PressureChanged,
        RunFinished,
        SwitchFinished,
        TopologyChanged,
        TopologyProbed,
    )
    from .hookspecs import ApexSpec, hookimpl
    from .interfaces import *
    from .plugins import LoadReport, PluginRecord, Plugins, load_plugins
    from .runtime import Coordinator, Router, RouteTable, SwitchEngine
    from .services import LLMService, ToolService
    from .session import Services, Session, SessionEnd, Step
    from .timeloop import VirtualTimeLoop

_ROOMS = (
    "errors",
    "hookspecs",
    "catalog",
    "plugins",
    "events",
    "interfaces",
    "budget",
    "services",
    "runtime",
    "session",
    "timeloop",
)
"""Modules of the public names, light ones first."""

__all__ = [
    "BROADCAST",
    "MAX_PAYLOAD_BYTES",
    "STAY",
    "Agent",
    "AgentContext",
    "AgentID",
    "ApexError",
    "ApexSpec",
    "ArtifactError",
    "BackendError",
    "BlobInfo",
    "BlobStore",
    "Brief",
    "BudgetScope",
    "BudgetTooSmallError",
    "CallDenied",
    "CallSettled",
    "CallTags",
    "Capability",
    "Carrier",
    "CarrierClosedError",
    "Catalog",
    "Checkpoint",
    "Chunk",
    "Codec",
    "ConfigError",
    "Confinement",
    "Controller",
    "Coordinator",
    "DeadReason",
    "Decision",
    "DecisionTaken",
    "Denied",
    "Entry",
    "EnvironmentProblem",
    "EpisodeContext",
    "EpisodeFinished",
    "EpisodeJob",
    "EpisodeResult",
    "EpisodeStarted",
    "Epoch",
    "Event",
    "Executor",
    "Exporter",
    "Guard",
    "HealthPinned",
    "Inheritable",
    "Intercepted",
    "Interceptor",
    "JournalError",
    "LLMBackend",
    "LLMCapabilities",
    "LLMRequest",
    "LLMResult",
    "LLMService",
    "LLMStatus",
    "Lane",
    "LaneDiscipline",
    "Ledger",
    "LedgerError",
    "Level",
    "Limits",
    "LoadReport",
    "LoopStalled",
    "Member",
    "Message",
    "MessageMoved",
    "MessagePriority",
    "MissingExtraError",
    "ModelCall",
    "NameTakenError",
    "NotComparableError",
    "Observation",
    "Outcome",
    "Owner",
    "PayloadError",
    "PayloadTooLargeError",
    "PlanChangedError",
    "PluginError",
    "PluginRecord",
    "Plugins",
    "Point",
    "Policy",
    "PressureChanged",
    "Refills",
    "Report",
    "Roster",
    "RouteResult",
    "RouteTable",
    "Router",
    "Routes",
    "Ruling",
    "RunFinished",
    "RunFolderError",
    "RunsTests",
    "RuntimeFault",
    "Sandbox",
    "SandboxStatus",
    "Services",
    "Session",
    "SessionEnd",
    "Snapshots",
    "Step",
    "StoreError",
    "Streams",
    "Subject",
    "SuiteError",
    "SwitchEngine",
    "SwitchFinished",
    "Task",
    "TaskSuite",
    "Team",
    "TestOutcome",
    "TestReport",
    "ToolCall",
    "ToolResult",
    "ToolServer",
    "ToolService",
    "ToolSpec",
    "Topology",
    "TopologyChanged",
    "TopologyProbed",
    "Trainable",
    "Transition",
    "Transport",
    "UnknownNameError",
    "UsageError",
    "Verdict",
    "VirtualTimeLoop",
    "Warms",
    "Workspace",
    "WorkspaceError",
    "WorkspaceProvider",
    "__version__",
    "hookimpl",
    "infrastructure_failure",
    "load_plugins",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in __all__:
        for room in _ROOMS:
            module = import_module(f"{__name__}.{room}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
