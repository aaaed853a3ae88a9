"""What a plugin implements: per file one Protocol of at most five methods, with its frozen dataclasses."""

from .message import AgentID, BROADCAST, DeadReason, Epoch, MAX_PAYLOAD_BYTES, Message, MessagePriority, RouteResult
from .topology import Member, Roster, Routes, Topology
from .controller import (
    Checkpoint,
    Controller,
    Decision,
    EpisodeContext,
    Observation,
    Outcome,
    STAY,
    Trainable,
    Transition,
)
from .budget import BudgetScope, CallTags, Denied, Limits, Refills
from .llm import Chunk, LLMBackend, LLMCapabilities, LLMRequest, LLMResult, LLMStatus, Streams, Warms
from .suite import Task, TaskSuite, Verdict
from .workspace import Diffs, RunsTests, TestOutcome, TestReport, Workspace, WorkspaceProvider
from .tool import Capability, ToolCall, ToolResult, ToolServer, ToolSpec
from .transport import Carrier, Codec, Transport
from .policy import ModelCall, Policy, Ruling, Subject
from .interceptor import Intercepted, Interceptor, Point
from .store import BlobInfo, BlobStore
from .lane import Lane, LaneDiscipline
from .team import Agent, AgentContext, Brief, Snapshots, Team
from .sandbox import Confinement, Level, Sandbox, SandboxStatus
from .executor import EpisodeJob, EpisodeResult, Executor, infrastructure_failure
from .exporter import Exporter
from .report import Report

__all__ = [
    "Agent",
    "AgentContext",
    "AgentID",
    "BROADCAST",
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
    "MAX_PAYLOAD_BYTES",
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
    "STAY",
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
