"""What a plugin implements: per file one Protocol of at most five methods, with its frozen dataclasses."""

from .budget import BudgetScope, CallTags, Denied, Limits, Refills
from .controller import (
    STAY,
    Checkpoint,
    Controller,
    Decision,
    EpisodeContext,
    Observation,
    Outcome,
    Trainable,
    Transition,
)
from .executor import EpisodeJob, EpisodeResult, Executor, infrastructure_failure
from .exporter import Exporter
from .interceptor import Intercepted, Interceptor, Point
from .lane import Lane, LaneDiscipline
from .llm import Chunk, LLMBackend, LLMCapabilities, LLMRequest, LLMResult, LLMStatus, Streams, Warms
from .message import BROADCAST, MAX_PAYLOAD_BYTES, AgentID, DeadReason, Epoch, Message, MessagePriority, RouteResult
from .policy import ModelCall, Policy, Ruling, Subject
from .report import Report
from .sandbox import Confinement, Level, Sandbox, SandboxStatus
from .store import BlobInfo, BlobStore
from .suite import Task, TaskSuite, Verdict
from .team import Agent, AgentContext, Brief, Snapshots, Team
from .tool import Capability, ToolCall, ToolResult, ToolServer, ToolSpec
from .topology import Member, Roster, Routes, Topology
from .transport import Carrier, Codec, Inheritable, Transport
from .workspace import Diffs, RunsTests, TestOutcome, TestReport, Workspace, WorkspaceProvider

__all__ = [
    "BROADCAST",
    "MAX_PAYLOAD_BYTES",
    "STAY",
    "Agent",
    "AgentContext",
    "AgentID",
    "BlobInfo",
    "BlobStore",
    "Brief",
    "BudgetScope",
    "CallTags",
    "Capability",
    "Carrier",
    "Checkpoint",
    "Chunk",
    "Codec",
    "Confinement",
    "Controller",
    "DeadReason",
    "Decision",
    "Denied",
    "Diffs",
    "EpisodeContext",
    "EpisodeJob",
    "EpisodeResult",
    "Epoch",
    "Executor",
    "Exporter",
    "Inheritable",
    "Intercepted",
    "Interceptor",
    "LLMBackend",
    "LLMCapabilities",
    "LLMRequest",
    "LLMResult",
    "LLMStatus",
    "Lane",
    "LaneDiscipline",
    "Level",
    "Limits",
    "Member",
    "Message",
    "MessagePriority",
    "ModelCall",
    "Observation",
    "Outcome",
    "Point",
    "Policy",
    "Refills",
    "Report",
    "Roster",
    "RouteResult",
    "Routes",
    "Ruling",
    "RunsTests",
    "Sandbox",
    "SandboxStatus",
    "Snapshots",
    "Streams",
    "Subject",
    "Task",
    "TaskSuite",
    "Team",
    "TestOutcome",
    "TestReport",
    "ToolCall",
    "ToolResult",
    "ToolServer",
    "ToolSpec",
    "Topology",
    "Trainable",
    "Transition",
    "Transport",
    "Verdict",
    "Warms",
    "Workspace",
    "WorkspaceProvider",
    "infrastructure_failure",
]
