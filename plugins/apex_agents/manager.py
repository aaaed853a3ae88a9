"""The team ``manager``: the five roles report to a separate manager, who passes everything on."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from apex_framework.interfaces import (
    Agent,
    AgentContext,
    AgentID,
    Brief,
    Denied,
    LLMResult,
    Member,
    Message,
    MessagePriority,
    Roster,
    RouteResult,
    ToolResult,
)
from apex_framework.interfaces.prompting import Ask, Kind, Section, parse_lines

from . import speech
from .asking import ask
from .memory import Memory
from .swe import TOOLS, members, workers

MESSAGES_PER_BRIEFING = 6


@dataclass
class Manager:
    """Delegates: every message names whom it is for; now and then the manager adds a briefing of its own."""

    id: AgentID
    role: str = "manager"
    memory: Memory = field(default_factory=lambda: Memory(frozenset({Kind.TRIED, Kind.CAUSE})))
    _passed_on: int = 0

    def overhear(self, message: Message) -> None:
        self.memory.hear(message)

    async def handle(self, message: Message, context: AgentContext) -> None:
        if speech.kind_of(message) == speech.TASK:
            await context.send("planner", message.payload)
            return
        self.memory.hear(message)
        sections = list(speech.sections_of(message))
        self._passed_on += 1
        if self._passed_on % MESSAGES_PER_BRIEFING == 0:
            sections += await self._briefing(context)
        rest = {k: v for k, v in message.payload.items() if k not in ("kind", "sections", "for")}
        # The real author stays known: answers to a request go back to it, not to the manager.
        rest.setdefault("from", str(message.sender))
        await context.send(
            str(message.payload.get("for", "planner")),
            speech.payload(speech.kind_of(message), sections, **rest),
            priority=message.priority,
        )

    async def _briefing(self, context: AgentContext) -> list[Section]:
        sections, heard = self.memory.recall()
        lines = await ask(
            context, Ask.SUMMARIZE, sections, lambda text: parse_lines(text, "SUMMARY"), max_tokens=150, heard=heard
        )
        body = "\n".join(" | ".join(filter(None, line)) for line in lines or ())
        return [Section(Kind.SUMMARY, body)] if body else []


@dataclass(frozen=True)
class _ReportsToManager:
    """A role's context in which every message goes to the manager first."""

    inner: AgentContext
    manager: str

    async def ask(self, prompt: str, *, max_tokens: int, purpose: str = "", heard: str = "") -> LLMResult | Denied:
        return await self.inner.ask(prompt, max_tokens=max_tokens, purpose=purpose, heard=heard)

    async def use(self, tool: str, **arguments: Any) -> ToolResult:
        return await self.inner.use(tool, **arguments)

    async def send(
        self, audience: str, payload: dict[str, Any], *, priority: MessagePriority = MessagePriority.DRAFT
    ) -> RouteResult:
        return await self.inner.send(self.manager, {**payload, "for": audience}, priority=priority)

    def finish(self, reason: str) -> None:
        self.inner.finish(reason)

    @property
    def headroom(self) -> float:
        return self.inner.headroom


@dataclass
class Employee:
    """One of the five roles, working for a manager."""

    agent: Agent
    manager: str

    @property
    def id(self) -> AgentID:
        return self.agent.id

    @property
    def role(self) -> str:
        return self.agent.role

    def overhear(self, message: Message) -> None:
        self.agent.overhear(message)

    async def handle(self, message: Message, context: AgentContext) -> None:
        author = message.payload.get("from")
        if author:
            message = copy(message)
            message.sender = AgentID(str(author))
        await self.agent.handle(message, _ReportsToManager(context, self.manager))


class ManagerTeam:
    """A manager and a ``swe`` team of 3 to 10 below it."""

    name = "manager"

    def roster(self, size: int | None = None) -> Roster:
        manager = Member(AgentID("manager"), "manager")
        return Roster((manager, *members((size or 6) - 1)), manager.id)

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        return [Manager(roster.lead), *(Employee(a, str(roster.lead)) for a in workers(roster, brief))]

    def tools(self, role: str) -> frozenset[str]:
        return TOOLS.get(role, frozenset())
