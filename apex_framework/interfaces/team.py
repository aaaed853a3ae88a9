"""Team: a roster of agents, and how they work. Agents know roles and facts, never the topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from .budget import Denied
from .llm import LLMResult
from .message import AgentID, Message, MessagePriority, RouteResult
from .tool import ToolResult
from .topology import Roster


@dataclass(frozen=True, slots=True)
class Brief:
    """What a team is told at the start: the issue text and settings that are the same for every arm."""

    issue: str
    task_id: str
    seed: int
    candidates: int = 8
    """Edits that one repair answer may hold."""
    options: Mapping[str, Any] = field(default_factory=dict)


class AgentContext(Protocol):
    """Everything an agent can do to the world; the only doors out of it."""

    async def ask(self, prompt: str, *, max_tokens: int, purpose: str = "", heard: str = "") -> LLMResult | Denied:
        """One model call, reserved before and settled after. A Denied answer means: find a cheaper step.

        ``heard`` is the part of the prompt that came from other agents' messages, for accounting.
        A failed or timed-out call comes back as a result with that status, never as an exception.
        """
        ...

    async def use(self, tool: str, /, **arguments: Any) -> ToolResult:
        """One tool call within this agent's capability; a refusal is a result."""
        ...

    async def send(
        self, audience: str, payload: dict[str, Any], *, priority: MessagePriority = MessagePriority.DRAFT
    ) -> RouteResult:
        """Address an audience (role, roles joined by ``+``, agent id, BROADCAST); false when refused."""
        ...

    def finish(self, reason: str) -> None:
        """Propose the workspace as it stands as the team's result; the session ends after this step."""
        ...

    @property
    def headroom(self) -> float:
        """Share of the tightest token budget that is still free, in [0, 1]."""
        ...


@runtime_checkable
class Agent(Protocol):
    """A member at work. One message at a time; ``handle`` is cancellable and has a deadline."""

    @property
    def id(self) -> AgentID:
        """Its id in the roster."""
        ...

    @property
    def role(self) -> str:
        """Its role."""
        ...

    async def handle(self, message: Message, context: AgentContext) -> None:
        """Act on a message addressed to it. An exception makes the message be tried again."""
        ...

    def overhear(self, message: Message) -> None:
        """Take in a message that it only relays; paid for at its next model call."""
        ...


@runtime_checkable
class Snapshots(Protocol):
    """Optional ability of an agent: its state can be saved and set, for durable sessions."""

    def snapshot(self) -> dict[str, Any]:
        """JSON-ready state."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Return to a saved state."""
        ...


@runtime_checkable
class Pings(Protocol):
    """Optional ability of an agent: it can be asked whether it is well, also while it handles a message."""

    async def ping(self) -> None:
        """Return soon when able to work, raise otherwise. Asked before a switch, under a limit of milliseconds."""
        ...


@runtime_checkable
class Team(Protocol):
    """Who works together, with which tools."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    def roster(self, size: int | None = None) -> Roster:
        """Members for a team of this size (None: its usual size). Raises ValueError for an impossible one."""
        ...

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        """One fresh agent per member, in roster order."""
        ...

    def tools(self, role: str) -> frozenset[str]:
        """Names of the tools that a role may use."""
        ...
