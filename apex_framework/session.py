"""A session: a team at work, without task or experiment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .interfaces import (
    Agent,
    AgentID,
    CallTags,
    Capability,
    Denied,
    Intercepted,
    Interceptor,
    LLMResult,
    Message,
    MessagePriority,
    Point,
    Roster,
    RouteResult,
    ToolResult,
)
from .ports import Clock, Ids, derive_seed
from .runtime import Lease, Router
from .services import LLMService, ToolService, chain

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Step:
    """One handled message: who handled it, and whether that went well."""

    number: int
    agent: AgentID
    role: str
    message: Message
    error: str = ""
    final: bool = False
    """True when nothing follows this step: somebody has finished, nothing is left to do, or it is the last allowed."""


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """Why a session ended: ``finished`` by an agent, ``quiet`` (nothing left to do) or ``max_steps``."""

    status: str
    reason: str
    steps: int


@dataclass
class Services:
    """The doors that a session's agents share."""

    llm: LLMService
    tools: ToolService
    headroom: Callable[[CallTags], Mapping[str, float]]
    """Scope name -> free share of its token budget."""
    interceptors: Sequence[Interceptor] = ()


@dataclass
class Session:
    """Runs every agent's loop of lease, handle and ack until someone finishes or nothing is left.

    ``on_step`` is awaited after each handled message, one at a time and in order, while the agents go
    on; ``on_tool`` hears every tool result. ``share_everything`` lets every agent overhear every
    message when it is sent, whatever the topology.
    """

    episode_id: str
    roster: Roster
    agents: Mapping[AgentID, Agent]
    router: Router
    services: Services
    tags: Callable[[Agent], CallTags]
    capability: Callable[[Agent], Capability]
    clock: Clock
    seed: int = 0
    max_steps: int = 200
    handler_deadline_s: float = 3600.0
    on_step: Callable[[Step], Awaitable[None]] | None = None
    on_tool: Callable[[str, ToolResult], None] | None = None
    share_everything: bool = False
    faults: list[str] = field(default_factory=list)
    """Errors of agents, in order: ``agent: error``."""

    def __post_init__(self) -> None:
        self._ids = Ids("m")
        self._end: SessionEnd | None = None
        self._finish_reason = ""
        self._finished_by = 0
        """Number of the step in which somebody finished: the last one."""
        self._over = asyncio.Event()
        self._steps: asyncio.Queue[Step] = asyncio.Queue()
        self._count = 0
        self._judged = 0

    async def run(self, task: dict[str, Any]) -> SessionEnd:
        """Hand ``task`` to the lead and work until the end; always closes the router.

        Raises what ``on_step`` raises.
        """
        first = Message(self.episode_id, self._ids.next(), AgentID("user"), self.roster.lead, self.router.epoch, task)
        pumps: list[asyncio.Task[None]] = []
        try:
            self.router.inject(first)
            async with asyncio.TaskGroup() as group:
                pumps.append(group.create_task(self._judge()))
                pumps += [group.create_task(self._pump(agent)) for agent in self.agents.values()]
                await self._over.wait()
                for pump in pumps:
                    pump.cancel()
        except ExceptionGroup as group:  # one judge, one error: nobody has to unpack it
            raise group.exceptions[0] from None
        finally:
            self.router.close_episode()
        assert self._end is not None
        return self._end

    async def _pump(self, agent: Agent) -> None:
        while True:
            lease = await self.router.lease(agent.id)
            if lease is None:
                return
            if lease.is_relay:
                self._overhear(agent, lease.message)
                self.router.ack(lease)
                self._check_quiet()
            else:
                await self._handle(agent, lease)

    def _overhear(self, agent: Agent, message: Message) -> None:
        try:
            agent.overhear(message)
        except Exception as fault:  # noqa: BLE001 - a plugin's edge: a deaf relay must still pass the message on
            self._blame(agent, message, fault)

    def _blame(self, agent: Agent, message: Message, fault: Exception) -> str:
        error = f"{agent.id}: {type(fault).__name__}: {fault}"
        self.faults.append(error)
        log.exception("agent %s failed on %s", agent.id, message.msg_id)
        return error

    async def _handle(self, agent: Agent, lease: Lease) -> None:
        error = ""
        desk = Desk(self, agent)
        try:
            async with asyncio.timeout(self.handler_deadline_s):
                await self._around_handle(agent, desk, lease.message)
            self.router.ack(lease)
        except asyncio.CancelledError:
            self.router.nack(lease, "cancelled")
            raise
        except Exception as fault:  # noqa: BLE001 - a plugin's edge: its failure becomes a nack and is reported
            error = self._blame(agent, lease.message, fault)
            self.router.nack(lease, type(fault).__name__)
        self._count += 1
        if desk.finished and not self._finished_by:
            self._finish_reason, self._finished_by = desk.finished, self._count
        self._steps.put_nowait(Step(self._count, agent.id, agent.role, lease.message, error))

    async def _around_handle(self, agent: Agent, desk: Desk, message: Message) -> None:
        async def handle(passing: Intercepted) -> None:
            await agent.handle(passing.subject, desk)

        passing = Intercepted(Point.HANDLE, message, str(agent.id), agent.role, self.episode_id)
        await chain(self.services.interceptors, passing, handle)

    async def _judge(self) -> None:
        """Take the steps one by one: decisions are made here, and the end is seen here."""
        while self._end is None:
            step = await self._steps.get()
            if self.on_step is not None:
                await self.on_step(replace(step, final=self._is_last(step)))
            self._judged += 1
            if 0 < self._finished_by <= step.number:
                self._stop("finished", self._finish_reason)
            elif step.number >= self.max_steps:
                self._stop("max_steps", f"{self.max_steps} messages handled")
            self._check_quiet()

    def _is_last(self, step: Step) -> bool:
        nothing_left = self._steps.empty() and not self._work_left()
        return 0 < self._finished_by <= step.number or step.number >= self.max_steps or nothing_left

    def _check_quiet(self) -> None:
        if self._judged == self._count and not self._work_left() and not self._finish_reason:
            self._stop("quiet", "no message left and nobody at work")

    def _work_left(self) -> int:
        stats = self.router.stats
        return stats.waiting + stats.leased + stats.backoff

    def _stop(self, status: str, reason: str) -> None:
        if self._end is None:
            self._end = SessionEnd(status, reason, self._judged)
            self._over.set()

    async def send(
        self, agent: Agent, audience: str, payload: dict[str, Any], priority: MessagePriority
    ) -> RouteResult:
        """Route a message of an agent through the interceptors."""

        async def route(passing: Intercepted) -> RouteResult:
            message: Message = passing.subject
            if self.share_everything:
                meant = set(self.roster.resolve(message.audience or ""))
                for other in self.agents.values():
                    if other.id != agent.id and other.id not in meant:
                        self._overhear(other, replace(message, recipient=other.id))
            return await self.router.route(message)

        message = Message(
            self.episode_id,
            self._ids.next(),
            agent.id,
            AgentID(audience),
            self.router.epoch,
            payload,
            priority,
            created_ts=self.clock.monotonic(),
            audience=audience,
        )
        passing = Intercepted(Point.SEND, message, str(agent.id), agent.role, self.episode_id)
        result = await chain(self.services.interceptors, passing, route)
        return RouteResult(result)


class Desk:
    """An agent's doors: the AgentContext of one handled message."""

    def __init__(self, session: Session, agent: Agent) -> None:
        self._session = session
        self._agent = agent
        self._calls = 0
        self.finished = ""
        """Why this agent has finished; empty while it has not."""

    async def ask(self, prompt: str, *, max_tokens: int, purpose: str = "", heard: str = "") -> LLMResult | Denied:
        self._calls += 1
        seed = derive_seed(self._session.seed, self._agent.id, self._calls, prompt)
        tags = self._session.tags(self._agent)
        return await self._session.services.llm.ask(
            tags, prompt, max_tokens=max_tokens, purpose=purpose, seed=seed, message_tokens_text=heard
        )

    async def use(self, tool: str, **arguments: Any) -> ToolResult:
        capability = self._session.capability(self._agent)
        result = await self._session.services.tools.use(
            capability, tool, arguments, episode_id=self._session.episode_id
        )
        if self._session.on_tool is not None:
            self._session.on_tool(tool, result)
        return result

    async def send(
        self, audience: str, payload: dict[str, Any], *, priority: MessagePriority = MessagePriority.DRAFT
    ) -> RouteResult:
        return await self._session.send(self._agent, audience, payload, priority)

    def finish(self, reason: str) -> None:
        self.finished = self.finished or reason or "finished"

    @property
    def headroom(self) -> float:
        shares = self._session.services.headroom(self._session.tags(self._agent))
        return min(shares.values(), default=1.0)
