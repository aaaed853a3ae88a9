"""The session: agents' loops of lease, handle and ack, until someone finishes or nothing is left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import ConfigError, PluginError
from ..events import Event
from ..interfaces import (
    Agent,
    AgentID,
    CallTags,
    Capability,
    Intercepted,
    Interceptor,
    Message,
    MessagePriority,
    Point,
    Roster,
    RouteResult,
    ToolResult,
)
from ..ports import Clock, Ids
from ..runtime import Lease, Router
from ..services import LLMService, ToolService, chain
from ..services.advice import is_interrupt
from .desk import Desk
from .durable import DurableLog
from .durable_desk import DurableDesk
from .keeper import AHEAD, Keeper
from .supervision import Unit
from .watchdog import Watchdog

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
    faults: tuple[str, ...] = ()
    """What went wrong at work, in order: ``agent: error``."""


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
    on; ``on_tool`` hears every tool result, ``on_event`` of stalls of the event loop. ``share_everything`` lets
    every agent overhear every message when it is sent, whatever the topology.

    An agent that raises, whatever it raises, or takes longer than ``handler_deadline_s`` gets its message again.
    One that swallows its cancellation is cancelled again after ``cancel_grace_s``, and left alone after as
    long again. Either way it is told in ``faults``, and the session ends in bounded time.
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
    on_event: Callable[[Event], None] | None = None
    cancel_grace_s: float = 5.0
    stall_after_s: float = 1.0
    """The event loop standing still for so long, in real time, is told as LoopStalled; 0: nobody watches."""
    durable: DurableLog | None = None
    """With one, the session outlives its process: ``run`` starts it, or goes on where the journal ends."""

    def __post_init__(self) -> None:
        if not self.handler_deadline_s > 0 or not self.cancel_grace_s >= 0:
            raise ConfigError(
                f"a handler's deadline of {self.handler_deadline_s} s and a grace of {self.cancel_grace_s} s are no times",
                "give a deadline > 0 and a grace >= 0",
            )
        self._ids = Ids("m")
        self._end: SessionEnd | None = None
        self._finish_reason = ""
        self._finished_by = 0
        """Number of the step in which somebody finished: the last one."""
        self._over = asyncio.Event()
        self._steps: asyncio.Queue[Step] = asyncio.Queue()
        self._count = 0
        self._judged = 0
        self._crew: dict[asyncio.Task[None], str] = {}
        """Tasks that have to end before the session does, and the agent that each works for."""
        self._units: dict[asyncio.Task[Any], Unit] = {}
        """Plugin code at work, by task."""
        self._closing = False
        self._empty: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None
        self._keeper: Keeper | None = None
        self.recovered = self.durable is not None and self.durable.begun
        """Whether there is something to go on with."""

    async def run(self, task: dict[str, Any]) -> SessionEnd:
        """Hand ``task`` to the lead and work until the end; always closes the router.

        A durable session that has begun goes on with the task that it has; one that has ended says so again.
        Raises what ``on_step`` raises; a durable one JournalError, ConfigError, and RuntimeFault for an agent that
        cannot be set back.
        """
        if self.durable is not None and (ended := self.durable.state.ended) is not None:
            Keeper(self, self.durable).recall()
            return SessionEnd(ended["status"], ended["reason"], ended["steps"], tuple(ended["faults"]))
        lead, now = self.roster.lead, self.clock.monotonic()
        first = Message(
            self.episode_id, self._ids.next(), AgentID("user"), lead, self.router.epoch, task, created_ts=now
        )
        try:
            with Watchdog(self.episode_id, self._stalled, self._works_for, limit_s=self.stall_after_s):
                try:
                    await self._begin(first)
                    self._start(self._judge(), "")
                    for agent in self.agents.values():
                        self._start(self._pump(agent), str(agent.id))
                    await self._over.wait()
                finally:
                    await self._dismiss()
            if self._failure is not None:
                raise self._failure
            assert self._end is not None
            if self._keeper is not None:
                await self._keeper.end(self._end.status, self._end.reason, self._end.steps)
        finally:
            if self._keeper is not None:
                self._keeper.close()
            self.router.close_episode()
        return replace(self._end, faults=tuple(self.faults))

    async def _begin(self, first: Message) -> None:
        if self.durable is None:
            self.router.inject(first)
            return
        self._keeper = Keeper(self, self.durable)
        self._keeper.begin(first)
        await self._keeper.open()
        self._start(self.durable.serve(), "")
        if 0 < self._finished_by <= self._judged:
            self._stop("finished", self._finish_reason)
        self.check_quiet()

    def resume(self, steps: int, judged: int, finished: tuple[int, str] | None, last_id: int) -> None:
        """Count on from where a journal ends."""
        self._count, self._judged = steps, judged
        self._finished_by, self._finish_reason = finished or (0, "")
        self._ids = Ids("m", last_id)

    def fail(self, error: BaseException) -> None:
        """End the session with an error."""
        self._failure = self._failure or error
        self._over.set()

    # --- the crew -----------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, None], agent_id: str) -> None:
        # Not a task group: it waits for ever for a task that cannot be woken.
        task = asyncio.get_running_loop().create_task(work)
        self._crew[task] = agent_id
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        """A task has ended, or is not waited for any more."""
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            self._over.set()
        self._crew.pop(task, None)
        if not self._crew and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    async def _dismiss(self) -> None:
        """End the crew in bounded time. Cancelled meanwhile, it goes on, and raises the cancellation afterwards."""
        self._closing = True
        for task in list(self._crew):
            if (unit := self._units.get(task)) is not None:
                unit.stop()
            else:
                task.cancel()
        cancelled: asyncio.CancelledError | None = None
        while self._crew:
            self._empty = asyncio.get_running_loop().create_future()
            try:
                await self._empty
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _stalled(self, event: Any) -> None:
        who = event.agent_id or "session"
        self.faults.append(f"{who}: LoopStalled: the event loop stood still for {event.stalled_ms:.0f} ms")
        log.warning("the event loop stood still for %.0f ms\n%s", event.stalled_ms, event.stack)
        if self.on_event is not None:
            self.on_event(event)

    def _works_for(self, task: asyncio.Task[Any] | None) -> str:
        return self._crew.get(task, "") if task is not None else ""

    # --- agents at work -----------------------------------------------------------------------

    async def _pump(self, agent: Agent) -> None:
        while not self._closing:
            try:
                lease = await self.router.lease(agent.id)
            except asyncio.CancelledError:
                if self._closing or not self._revived(agent):
                    raise
                continue
            except PluginError as error:  # its lane broke its contract; a plain queue serves on
                self._blame(agent, "its lane", error)
                continue
            if lease is None:
                return
            if self._keeper is not None and not await self._ready(agent, lease, self._keeper):
                continue
            if lease.is_relay:
                self._relay(agent, lease)
            elif not await self._handle(agent, lease):
                return

    def _revived(self, agent: Agent) -> bool:
        """After a cancellation that came too late for the handler that asked for it; false when nobody asked."""
        task, asked = asyncio.current_task(), False
        while task is not None and task.cancelling():
            task.uncancel()
            asked = True
        if asked:
            self.faults.append(f"{agent.id}: CancelledError: cancelled its own task")
        return asked

    async def _ready(self, agent: Agent, lease: Lease, keeper: Keeper) -> bool:
        """Wait while the disk is too far behind; false when this message is done already."""
        await keeper.log.room(AHEAD)
        return not keeper.settled(agent, lease)

    def _relay(self, agent: Agent, lease: Lease) -> None:
        self._overhear(agent, lease.message)
        if self._keeper is not None:
            self._keeper.relayed(agent, lease)
            return
        self.router.ack(lease)
        self.check_quiet()

    def _overhear(self, agent: Agent, message: Message) -> None:
        try:
            agent.overhear(message)
        except BaseException as fault:
            if is_interrupt(fault):
                raise
            self._blame(agent, message.msg_id, fault)

    def _blame(self, agent: Agent, at: str, fault: BaseException) -> str:
        error = f"{agent.id}: {type(fault).__name__}: {fault}"
        self.faults.append(error)
        log.error("agent %s failed on %s", agent.id, at, exc_info=fault)
        return error

    async def _handle(self, agent: Agent, lease: Lease) -> bool:
        """One message; False when this task was let go, and another one has taken its place."""
        error = ""
        desk = self._desk(agent, lease)
        unit = self._unit(agent, lease)
        try:
            await unit.run(self._around_handle(agent, desk, lease.message))
            if unit.expired:
                raise TimeoutError(f"no end within {self.handler_deadline_s:g} s")
            if isinstance(desk, DurableDesk) and self._keeper is not None:
                self._keeper.done(agent, lease, desk.sent, desk.finished, self._count + 1)
                self._counted(desk.finished)
                return True
            self.router.ack(lease)
        except BaseException as fault:
            if unit.closed or is_interrupt(fault):
                raise
            if unit.abandoned:
                return False
            if isinstance(fault, asyncio.CancelledError) and self._closing:
                self.router.nack(lease, "cancelled")
                raise
            if self.durable is not None and self.durable.failure is not None:
                raise  # nothing can be written any more, not even this
            error = self._failed(agent, lease, unit, fault)
        finally:
            self._units.pop(unit.task, None)
        if self._keeper is None:
            self._counted(desk.finished)
            self.told(self._count, agent, lease.message, error)
        return True

    def _desk(self, agent: Agent, lease: Lease) -> Desk:
        if self._keeper is None:
            return Desk(self, agent)
        return DurableDesk(self, agent, self._keeper, lease.message)

    def _failed(self, agent: Agent, lease: Lease, unit: Unit, fault: BaseException) -> str:
        """Give a message back; the error as it is told."""
        if unit.expired:
            fault, reason = TimeoutError(f"no end within {self.handler_deadline_s:g} s"), "deadline"
        else:
            reason = type(fault).__name__
        while unit.cancelled:  # the agent cancelled the task that it works in; nobody else has a reason to
            unit.task.uncancel()
        error = self._blame(agent, lease.message.msg_id, fault)
        self._give_back(agent, lease, error, reason)
        return error

    def _give_back(self, agent: Agent, lease: Lease, error: str, reason: str) -> None:
        if self._keeper is not None:
            self._counted("")
            self._keeper.failed(agent, lease.message, error, self._count)
        self.router.nack(lease, reason)

    def _counted(self, finished: str) -> None:
        self._count += 1
        if finished and not self._finished_by:
            self._finish_reason, self._finished_by = finished, self._count

    def told(self, number: int, agent: Agent, message: Message, error: str) -> None:
        """A step is over, and may be judged."""
        self._steps.put_nowait(Step(number, agent.id, agent.role, message, error))

    def _unit(self, agent: Agent, lease: Lease) -> Unit:
        def let_go(unit: Unit) -> None:
            self._abandon(agent, lease, unit)

        unit = Unit(
            grace_s=self.cancel_grace_s,
            let_go=let_go,
            deadline_s=self.handler_deadline_s,
            renew=lambda: self.router.renew(lease),
            every_s=(lease.deadline - self.clock.monotonic()) / 3,
        )
        self._units[unit.task] = unit
        return unit

    def _abandon(self, agent: Agent, lease: Lease, unit: Unit) -> None:
        """Leave work that ignores its cancellation: the message goes back, and somebody else serves the agent."""
        self._units.pop(unit.task, None)
        waited = f"cancelled twice, still at work {2 * self.cancel_grace_s:g} s later"
        error = f"{agent.id}: HandlerAbandoned: {waited}"
        self.faults.append(error)
        log.error("agent %s on %s: %s; left", agent.id, lease.message.msg_id, waited)
        if self._closing:
            self.router.nack(lease, "abandoned")
        else:
            self._give_back(agent, lease, error, "abandoned")
            if self._keeper is None:
                self._counted("")
                self.told(self._count, agent, lease.message, error)
            self._start(self._pump(agent), str(agent.id))
        self._left(unit.task)

    async def _around_handle(self, agent: Agent, desk: Desk, message: Message) -> None:
        async def handle(passing: Intercepted) -> None:
            answer: object = await agent.handle(passing.subject, desk)  # type: ignore[func-returns-value]
            if answer is not None:  # its work is done: not a reason to do it again
                self._blame(agent, message.msg_id, TypeError(f"handle returned {type(answer).__name__}, not None"))

        passing = Intercepted(Point.HANDLE, message, str(agent.id), agent.role, self.episode_id)
        await chain(self.services.interceptors, passing, handle)

    # --- steps and the end --------------------------------------------------------------------

    async def _judge(self) -> None:
        """Take the steps one by one: decisions are made here, and the end is seen here."""
        while self._end is None:
            step = await self._steps.get()
            if self.on_step is not None:
                await self._tell(self.on_step, replace(step, final=self._is_last(step)))
            self._judged = step.number
            if self._keeper is not None and self.on_step is not None:
                self._keeper.judged(step.number)
            if 0 < self._finished_by <= step.number:
                self._stop("finished", self._finish_reason)
            elif step.number >= self.max_steps:
                self._stop("max_steps", f"{self.max_steps} messages handled")
            self.check_quiet()

    async def _tell(self, on_step: Callable[[Step], Awaitable[None]], step: Step) -> None:
        async def tell() -> None:
            await on_step(step)

        unit = Unit(grace_s=self.cancel_grace_s, let_go=lambda unit: self._left(unit.task))
        self._units[unit.task] = unit
        try:
            await unit.run(tell())
        finally:
            self._units.pop(unit.task, None)

    def _is_last(self, step: Step) -> bool:
        nothing_left = self._steps.empty() and not self._work_left()
        return 0 < self._finished_by <= step.number or step.number >= self.max_steps or nothing_left

    def check_quiet(self) -> None:
        """End the session if nothing is left to do."""
        if self._judged == self._count and not self._work_left() and not self._finish_reason:
            self._stop("quiet", "no message left and nobody at work")

    def _work_left(self) -> int:
        return self.router.open

    def _stop(self, status: str, reason: str) -> None:
        if self._end is None:
            self._end = SessionEnd(status, reason, self._judged)
            self._over.set()

    async def use(self, agent: Agent, tool: str, arguments: Mapping[str, Any], key: str = "") -> ToolResult:
        """Call a tool for an agent."""
        result = await self.services.tools.use(
            self.capability(agent), tool, arguments, episode_id=self.episode_id, key=key
        )
        if self.on_tool is not None:
            self.on_tool(tool, result)
        return result

    async def route(self, agent: Agent, message: Message) -> RouteResult:
        """Give an agent's message to the router; with ``share_everything`` to everybody's ears as well."""
        if self.share_everything:
            meant = set(self.roster.resolve(message.audience or ""))
            for other in self.agents.values():
                if other.id != agent.id and other.id not in meant:
                    self._overhear(other, replace(message, recipient=other.id))
        return await self.router.route(message)

    async def send(
        self,
        agent: Agent,
        audience: str,
        payload: dict[str, Any],
        priority: MessagePriority,
        onward: Callable[[Message], Awaitable[RouteResult]],
    ) -> RouteResult:
        """Pass a message of an agent through the interceptors, and ``onward``."""

        async def route(passing: Intercepted) -> RouteResult:
            return await onward(passing.subject)

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
