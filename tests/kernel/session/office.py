"""A small office: agents made of one function each, around a real router, real services and a real session."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apex_budgets.episode import EpisodeScope
from apex_framework.budget import Guard, Ledger
from apex_framework.events import MessageMoved
from apex_framework.interfaces import (
    Agent,
    AgentContext,
    AgentID,
    CallTags,
    Capability,
    Interceptor,
    Member,
    Message,
    Roster,
    Topology,
)
from apex_framework.ports import LoopClock
from apex_framework.runtime import Router, RouteTable
from apex_framework.services import LLMService, ToolService
from apex_framework.session import Services, Session, SessionEnd, Step
from apex_framework.testing.scripted import ScriptedBackend
from apex_lanes.fifo import Fifo
from apex_topologies.chain import Chain
from apex_topologies.flat import Flat
from apex_topologies.star import Star
from apex_transports.inproc import InProcess

TOPOLOGIES: dict[str, Topology] = {"star": Star(), "chain": Chain(), "flat": Flat()}

Act = Callable[[Message, AgentContext], Awaitable[None]]


async def idle(message: Message, context: AgentContext) -> None:
    """Takes note and does nothing."""


@dataclass
class Clerk:
    """An agent made of one function; it keeps what it handled and what it overheard."""

    id: AgentID
    act: Act = idle
    role: str = ""
    handled: list[str] = field(default_factory=list)
    overheard: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.role = self.role or str(self.id)

    async def handle(self, message: Message, context: AgentContext) -> None:
        self.handled.append(message.msg_id)
        await self.act(message, context)

    def overhear(self, message: Message) -> None:
        self.overheard.append(message.msg_id)


class NoWorkspace:
    """A workspace for agents that need none."""

    root = Path("/nowhere")

    def fork(self) -> NoWorkspace:
        return self

    def commit(self) -> str:
        return ""

    def rollback(self) -> None: ...

    def dispose(self) -> None: ...


class Office:
    """Make it inside a running loop. The first name leads; names without an act are idle."""

    def __init__(
        self,
        *agents: Agent,
        topology: str = "star",
        interceptors: Sequence[Interceptor] = (),
        answers: Any = "ok",
        budget: int = 10_000,
        **session: Any,
    ) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.agents = {a.id: a for a in agents}
        self.roster = Roster(tuple(Member(a.id, a.role) for a in agents), agents[0].id)
        self.events: list[MessageMoved] = []
        self.router = Router(
            RouteTable.compile(TOPOLOGIES[topology], self.roster),
            lanes=Fifo(),
            transport=InProcess(),
            clock=self.clock,
            rng=random.Random(1),
            on_event=self.events.append,
        )
        self.ledger = Ledger()
        guard = Guard(self.ledger, [EpisodeScope()], clock=self.clock)
        self.backend = ScriptedBackend(answers)
        services = Services(
            LLMService({"*": self.backend}, guard, clock=self.clock, interceptors=interceptors),
            ToolService({}, clock=self.clock, interceptors=interceptors),
            guard.headroom,
            interceptors,
        )
        self.steps: list[Step] = []

        async def on_step(step: Step) -> None:
            self.steps.append(step)

        self.session = Session(
            "e",
            self.roster,
            self.agents,
            self.router,
            services,
            lambda agent: CallTags("r", "e", str(agent.id), agent.role, budget),
            lambda agent: Capability(NoWorkspace(), frozenset(), str(agent.id), agent.role),
            self.clock,
            **{"on_step": on_step, **session},
        )

    async def work(self) -> SessionEnd:
        """Run the session; afterwards every message must be accounted for and nobody at work."""
        try:
            return await self.session.run({"kind": "task"})
        finally:
            stats = self.router.audit()
            assert stats.waiting == stats.leased == stats.backoff == 0
            assert asyncio.all_tasks() == {asyncio.current_task()}
