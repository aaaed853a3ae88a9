"""A durable office: agents whose whole life fits into a snapshot, tools that count, and a disk that crashes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apex_budgets.episode import EpisodeScope
from apex_framework.budget import Guard, Ledger
from apex_framework.interfaces import (
    Agent,
    AgentContext,
    AgentID,
    CallTags,
    Capability,
    Member,
    Message,
    Roster,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from apex_framework.ports import Files, LoopClock, VirtualEffects
from apex_framework.runtime import Coordinator, Router, RouteTable, SwitchEngine
from apex_framework.services import LLMService, ToolService
from apex_framework.session import DurableLog, Services, Session, SessionEnd
from apex_framework.testing.scripted import ScriptedBackend
from apex_lanes.fifo import Fifo
from apex_topologies.chain import Chain
from apex_topologies.flat import Flat
from apex_topologies.star import Star
from apex_transports.inproc import InProcess

TOPOLOGIES = {"star": Star(), "chain": Chain(), "flat": Flat()}
ANY = {"type": "object"}

Act = Callable[["Worker", Message, AgentContext], Awaitable[None]]


@dataclass
class Worker:
    """An agent made of one function; ``state`` is all that it remembers."""

    id: AgentID
    act: Act
    role: str = ""
    state: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.role = self.role or str(self.id)
        self.state = {"handled": [], "overheard": [], "redelivered": []} | self.state

    async def handle(self, message: Message, context: AgentContext) -> None:
        self.state["handled"].append(said(message))
        if message.redelivered:
            self.state["redelivered"].append(message.msg_id)
        await self.act(self, message, context)

    def overhear(self, message: Message) -> None:
        self.state["overheard"].append(said(message))

    def snapshot(self) -> dict[str, Any]:
        return self.state

    def restore(self, state: dict[str, Any]) -> None:
        self.state = state


def said(message: Message) -> str:
    return f"{message.sender}: {message.payload.get('text', '')}"


@dataclass
class World:
    """What outlives every crash: effects by key, how often each was made, and when."""

    effects: Counter[str] = field(default_factory=Counter)
    by_key: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    dice: int = 0
    seen: Counter[str] = field(default_factory=Counter)


class Tools:
    """``put`` may be repeated and dedups by its key, ``fire`` may not be, ``look`` changes nothing."""

    tools = (
        ToolSpec("sink.put", "", ANY, read_only=False, idempotent=True),
        ToolSpec("sink.fire", "", ANY, read_only=False),
        ToolSpec("sink.look", "", ANY),
    )

    def __init__(self, world: World, pause_s: float = 0.001) -> None:
        self.world, self._pause_s = world, pause_s

    async def call(self, call: ToolCall) -> ToolResult:
        text = str(call.arguments.get("text"))
        if call.tool == "sink.look":
            self.world.reads += 1
            return ToolResult(True, {"effects": self.world.effects.total()})
        await asyncio.sleep(self._pause_s)
        if call.tool == "sink.put":
            self.world.by_key[call.key] += 1
            if self.world.by_key[call.key] == 1:
                self.world.effects[text] += 1
        else:
            self.world.effects[text] += 1
        await asyncio.sleep(self._pause_s)
        return ToolResult(True, {"done": text})

    async def close(self) -> None: ...


class NoWorkspace:
    root = Path("/nowhere")

    def fork(self) -> NoWorkspace:
        return self

    def commit(self) -> str:
        return ""

    def rollback(self) -> None: ...

    def dispose(self) -> None: ...


class DurableOffice:
    """Make it inside a running loop, once per life of the session."""

    def __init__(
        self,
        path: Path,
        files: Files | None,
        acts: Mapping[str, Act],
        *,
        world: World | None = None,
        topology: str = "flat",
        budget: int = 1_000_000,
        compact_bytes: int = 2**24,
        capacity: int = 10_000,
        log: type[DurableLog] = DurableLog,
        **session: Any,
    ) -> None:
        self.world = world or World()
        effects = VirtualEffects() if files is not None else None
        self.log = log.open(path, files=files, effects=effects, compact_bytes=compact_bytes)
        self.clock = LoopClock(asyncio.get_running_loop())
        self.agents = {AgentID(name): Worker(AgentID(name), act) for name, act in acts.items()}
        self.roster = Roster(tuple(Member(a.id, a.role) for a in self.agents.values()), next(iter(self.agents)))
        self.router = Router(
            RouteTable.compile(TOPOLOGIES[self.log.topology or topology], self.log.roster or self.roster),
            lanes=Fifo(),
            transport=InProcess(),
            clock=self.clock,
            rng=random.Random(1),
            capacity=capacity,
        )
        self.engine = SwitchEngine(
            self.router, TOPOLOGIES, clock=self.clock, log=self.log.switches, deadline_ms=5000.0, on_busy="migrate"
        )
        self.coordinator = Coordinator(self.engine, dwell=0, cooldown=0)
        self.ledger = Ledger()
        self.backend = ScriptedBackend(self._answer, latency_ms=1.0)
        guard = Guard(self.ledger, [EpisodeScope()], clock=self.clock)
        services = Services(
            LLMService({"*": self.backend}, guard, clock=self.clock),
            ToolService({"sink": Tools(self.world)}, clock=self.clock),
            guard.headroom,
        )
        tools = frozenset(t.name for t in Tools.tools)
        agents: Mapping[AgentID, Agent] = self.agents
        self.session = Session(
            "e",
            self.roster,
            agents,
            self.router,
            services,
            lambda agent: CallTags("r", "e", str(agent.id), agent.role, budget),
            lambda agent: Capability(NoWorkspace(), tools, str(agent.id), agent.role),
            self.clock,
            durable=self.log,
            **{"max_steps": 10_000, **session},
        )

    def _answer(self, request: Any) -> str:
        self.world.asked[request.prompt] += 1
        return f"answer to {request.prompt}"

    @property
    def states(self) -> dict[str, dict[str, Any]]:
        """What the agents remember, but for what a crash may change."""
        return {str(a.id): {k: v for k, v in a.state.items() if k != "redelivered"} for a in self.agents.values()}

    async def work(self) -> SessionEnd:
        try:
            end = await self.session.run({"text": "task"})
        finally:
            self.log.close()
        stats = self.router.audit()
        assert stats.waiting == stats.leased == stats.backoff == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return end
