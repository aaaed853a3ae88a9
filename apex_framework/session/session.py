"""The session: starts agents, judges their steps, and sees the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import ConfigError, SessionError
from ..events import Event
from ..interfaces import (
    Agent,
    AgentID,
    CallTags,
    Capability,
    Intercepted,
    Message,
    MessagePriority,
    Point,
    Roster,
    RouteResult,
    ToolResult,
)
from ..ports import Clock, Ids
from ..runtime import Router
from ..runtime.reentry import Reentry
from ..services import chain
from ..services.advice import is_interrupt
from .crew import Crew
from .durable import DurableLog
from .keeper import Keeper
from .parts import Services, SessionEnd, Step
from .pump import Pump
from .supervision import Unit
from .watchdog import Watchdog

log = logging.getLogger(__name__)

REMEDIES = {
    "lane_bytes": "raise lane_bytes, or leave it out",
    "total_bytes": "raise total_bytes, or leave it out",
    RouteResult.FULL: "raise the router's capacity",
    RouteResult.WRED: "raise the router's capacity, or take another lane discipline",
    RouteResult.POLICY: "let the policy allow messages from 'user'",
    RouteResult.EXPIRED: "raise the router's ttl_s",
    RouteResult.NO_ROUTE: "make the router for a roster with the session's lead",
    RouteResult.CLOSED: "give every session a router of its own",
}
"""What to do when the team's task is refused, by bound or result."""


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
        self.crew = Crew(self.fail)
        self._failure: BaseException | None = None
        self._logged: set[str] = set()
        self.services.tools.epoch = lambda: self.router.epoch
        self.keeper: Keeper | None = None
        self.recovered = self.durable is not None and self.durable.begun
        """Whether there is something to go on with."""

    async def run(self, task: dict[str, Any]) -> SessionEnd:
        """Hand ``task`` to the lead and work until the end; always closes the router.

        A durable session that has begun goes on, and must be given the same task; one that has ended says so again.
        Raises SessionError when the router refuses the task, and what ``on_step`` raises; a durable one JournalError,
        ConfigError, and RuntimeFault for an agent that cannot be set back.
        """
        if self.durable is not None and (ended := self.durable.state.ended) is not None:
            Keeper(self, self.durable).recall(task)
            return SessionEnd(ended["status"], ended["reason"], ended["steps"], tuple(ended["faults"]))
        lead, now = self.roster.lead, self.clock.monotonic()
        first = Message(
            self.episode_id, self._ids.next(), AgentID("user"), lead, self.router.epoch, task, created_ts=now
        )
        try:
            with Watchdog(self.episode_id, self._stalled, self.crew.works_for, limit_s=self.stall_after_s):
                try:
                    await self._begin(first)
                    self.crew.start(self._judge())
                    for agent in self.agents.values():
                        self.crew.start(Pump(self, agent).run(), str(agent.id))
                    await self._over.wait()
                finally:
                    await self.crew.dismiss()
            if self._failure is not None:
                raise self._failure
            assert self._end is not None
            if self.keeper is not None:
                await self.keeper.end(self._end.status, self._end.reason, self._end.steps)
        finally:
            if self.keeper is not None:
                self.keeper.close()
            self.router.close_episode()
        return replace(self._end, faults=tuple(self.faults))

    async def _begin(self, first: Message) -> None:
        reentry = Reentry(self.router)
        reentry.mourn(self._mourn)
        if self.durable is None:
            result, why = reentry.offer(first)
            if not result:
                what = result.value.removeprefix("dropped_") + (f" ({why})" if why else "")
                remedy = REMEDIES.get(why) or REMEDIES[result]
                raise SessionError(f"the team's task was refused: {what}", remedy)
            return
        self.keeper = Keeper(self, self.durable)
        self.keeper.begin(first)
        await self.keeper.open()
        self.crew.start(self.durable.serve())
        if 0 < self._finished_by <= self._judged:
            self._stop("finished", self._finish_reason)
        self.check_quiet()

    def _mourn(self) -> None:
        """A message has died, perhaps the last; looked at once whoever buries it is done."""
        if self._end is None and not self.crew.closing:
            asyncio.get_running_loop().call_soon(self.check_quiet)

    def resume(self, steps: int, judged: int, finished: tuple[int, str] | None, last_id: int) -> None:
        """Count on from where a journal ends."""
        self._count, self._judged = steps, judged
        self._finished_by, self._finish_reason = finished or (0, "")
        self._ids = Ids("m", last_id)

    def fail(self, error: BaseException) -> None:
        """End the session with an error."""
        self._failure = self._failure or error
        self._over.set()

    def _stalled(self, event: Any) -> None:
        who = event.agent_id or "session"
        self.faults.append(f"{who}: LoopStalled: the event loop stood still for {event.stalled_ms:.0f} ms")
        log.warning("the event loop stood still for %.0f ms\n%s", event.stalled_ms, event.stack)
        if self.on_event is not None:
            self.on_event(event)

    # --- steps and the end --------------------------------------------------------------------

    def counted(self, finished: str) -> int:
        """Another step; its number."""
        self._count += 1
        if finished and not self._finished_by:
            self._finish_reason, self._finished_by = finished, self._count
        return self._count

    @property
    def count(self) -> int:
        """Steps so far, judged or not."""
        return self._count

    def told(self, number: int, agent: Agent, message: Message, error: str) -> None:
        """A step is over, and may be judged."""
        self._steps.put_nowait(Step(number, agent.id, agent.role, message, error))

    def blame(self, agent: Agent, at: str, fault: BaseException) -> str:
        """An agent has failed; the error as it is told."""
        error = f"{agent.id}: {type(fault).__name__}: {fault}"
        self.faults.append(error)
        if self.is_news(error):
            log.warning("agent %s failed on %s; told once, counted in faults", agent.id, at, exc_info=fault)
        return error

    def is_news(self, error: str) -> bool:
        """Whether an error has not been logged yet in this session."""
        known = error in self._logged
        self._logged.add(error)
        return not known

    def overhear(self, agent: Agent, message: Message) -> None:
        """Let an agent overhear a message; a deaf one is told of, and harms nobody."""
        try:
            answer: object = agent.overhear(message)  # type: ignore[func-returns-value]  # a plugin may answer all the same
        except BaseException as fault:
            if is_interrupt(fault):
                raise
            self.blame(agent, message.msg_id, fault)
            return
        if answer is not None:
            if isinstance(answer, Coroutine):
                answer.close()
            self.blame(agent, message.msg_id, TypeError(f"overhear returned {type(answer).__name__}, not None"))

    async def _judge(self) -> None:
        """Take the steps one by one: decisions are made here, and the end is seen here."""
        while self._end is None:
            step = await self._steps.get()
            if self.on_step is not None:
                await self._tell(self.on_step, replace(step, final=self._is_last(step)))
            self._judged = step.number
            if self.keeper is not None and self.on_step is not None:
                self.keeper.judged(step.number)
            if 0 < self._finished_by <= step.number:
                self._stop("finished", self._finish_reason)
            elif step.number >= self.max_steps:
                self._stop("max_steps", f"{self.max_steps} messages handled")
            self.check_quiet()

    async def _tell(self, on_step: Callable[[Step], Awaitable[None]], step: Step) -> None:
        async def tell() -> None:
            await on_step(step)

        unit = Unit(grace_s=self.cancel_grace_s, let_go=lambda unit: self.crew.left(unit.task))
        self.crew.begin(unit)
        try:
            await unit.run(tell())
        finally:
            self.crew.end(unit)

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

    async def use(
        self, agent: Agent, tool: str, arguments: Mapping[str, Any], key: str = "", *, epoch: int | None = None
    ) -> ToolResult:
        """Call a tool for an agent, in the epoch in force or in the one that its handling of a message ended in."""
        capability = replace(self.capability(agent), epoch=self.router.epoch if epoch is None else epoch)
        result = await self.services.tools.use(capability, tool, arguments, episode_id=self.episode_id, key=key)
        if self.on_tool is not None:
            self.on_tool(tool, result)
        return result

    async def route(self, agent: Agent, message: Message) -> RouteResult:
        """Give an agent's message to the router; with ``share_everything`` to everybody's ears as well."""
        if self.share_everything:
            meant = set(self.roster.resolve(message.audience or ""))
            for other in self.agents.values():
                if other.id != agent.id and other.id not in meant:
                    self.overhear(other, replace(message, recipient=other.id))
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
