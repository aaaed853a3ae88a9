"""Tool server: a few named functions that agents may call, described by JSON schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from .workspace import Workspace


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool: ``name`` is ``server.tool``, ``schema`` the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool = True
    destructive: bool = False
    idempotent: bool = False
    """True when the same call, made twice, has the effect of one: a durable session may then repeat it."""
    outward: bool = False
    """True when its effect leaves the workspace (another program's state, the network): it is on disk before it is made."""
    scopes: frozenset[str] = frozenset()
    """What a capability must hold besides the tool's name, e.g. ``network``."""


@dataclass(frozen=True, slots=True)
class Capability:
    """What a caller may do: tools by name, the workspace they act on, scopes, and the epoch it was given in.

    It can only be narrowed.
    """

    workspace: Workspace
    tools: frozenset[str]
    agent_id: str = ""
    role: str = ""
    scopes: frozenset[str] = frozenset()
    epoch: int = 0

    def narrowed(self, tools: frozenset[str] | None = None, scopes: frozenset[str] | None = None) -> Capability:
        """The same capability with fewer tools and scopes; asking for more gives no more, None leaves as it is."""
        return replace(
            self,
            tools=self.tools if tools is None else self.tools & tools,
            scopes=self.scopes if scopes is None else self.scopes & scopes,
        )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as it reaches a server: already allowed, with a deadline in seconds."""

    tool: str
    arguments: Mapping[str, Any]
    capability: Capability
    deadline_s: float = 120.0
    key: str = ""
    """Names this call in a durable session: whoever sees a key twice sees one call made twice. Empty elsewhere."""
    progress: Callable[[float, str], None] | None = None
    """Told how far a long call is: share done in [0, 1] and a few words. Must not block."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answers. ``error`` is a stable code such as ``E_PATH``, empty on success."""

    ok: bool
    value: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    detail: str = ""


@runtime_checkable
class ToolServer(Protocol):
    """A group of tools. Refusals are results, not exceptions."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Every tool of this server; constant."""
        ...

    async def call(self, call: ToolCall) -> ToolResult:
        """Run one tool. Never leaves a partial effect behind a failure."""
        ...

    async def close(self) -> None:
        """Release processes and files; idempotent."""
        ...
