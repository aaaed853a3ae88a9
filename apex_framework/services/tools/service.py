"""The door to tools: capability, epoch, arguments, policies, loops, time; every refusal is a result with a code."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import ConfigError
from ...events import DirectCallBlocked, Event, LoopDetected, ToolUsed
from ...interfaces.interceptor import Intercepted, Interceptor, Point
from ...interfaces.policy import Policy
from ...interfaces.tool import Capability, ToolCall, ToolResult, ToolServer, ToolSpec
from ...ports import Clock
from ..advice import chain, denial
from ..schema import Schema
from . import oplog
from .codes import E_ARG, E_BUDGET, E_EPOCH, E_LOOP, E_POLICY, E_TIMEOUT, E_TOOL
from .loops import LoopGuard
from .passage import Passage
from .progress import Listener, Progress
from .resources import READ, Resources
from .seal import Open, SealedServer, is_answer, is_passing, sealed
from .settings import DoorSettings
from .spending import NOTHING_S, TimeBudget

_log = logging.getLogger(__name__)

CANCELLED = "cancelled"
"""Decision of a call whose caller was cancelled: it has no result."""


class ToolService:
    """Calls tools by name. Raises ConfigError when two servers have a tool of the same name.

    The servers are sealed: ``servers`` are what may be handed on, and refuse direct calls. With ``epoch``, a tool that
    changes something needs a capability of the epoch in force. ``secrets`` are never shown in a log. Without ``settings``
    time is unbounded and nobody looks for loops.
    """

    def __init__(
        self,
        servers: Mapping[str, ToolServer],
        *,
        clock: Clock,
        policies: Sequence[Policy] = (),
        interceptors: Sequence[Interceptor] = (),
        on_event: Callable[[Event], None] | None = None,
        settings: DoorSettings | None = None,
        epoch: Callable[[], int] | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        self.settings = settings or DoorSettings(tool_loop_after=0)
        self.epoch = epoch
        """Tells the epoch in force; a session sets it to its router's. None: epochs are not looked at."""
        self.servers: dict[str, SealedServer] = {}
        """The servers under seal, by name."""
        self._clock = clock
        self._policies = tuple(policies)
        self._interceptors = tuple(interceptors)
        self._on_event = on_event or (lambda event: None)
        self._secrets = tuple(secrets)
        self._count = 0
        self._loops = LoopGuard(self.settings.tool_loop_after)
        self._time = TimeBudget(self.settings.tool_seconds, self.settings.agent_tool_seconds)
        self._resources = Resources()
        self._tools: dict[str, tuple[Open, ToolSpec]] = {}
        for name, server in servers.items():
            self.servers[name], open_ = sealed(name, server, self._blocked)
            for spec in server.tools:
                if spec.name in self._tools or spec.name == READ.name:
                    raise ConfigError(f"tool {spec.name!r} of server {name!r} exists already")
                self._tools[spec.name] = (open_, spec)
        self._schemas = {spec.name: Schema(spec.schema) for spec in (READ, *self.specs)}

    def spec(self, tool: str) -> ToolSpec | None:
        """What is known of a tool; None when there is none of this name."""
        if tool == READ.name:
            return READ
        found = self._tools.get(tool)
        return found[1] if found is not None else None

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Every tool of the servers, in their order; ``resource.read`` is the door's own."""
        return tuple([spec for _, spec in self._tools.values()])

    def is_gone(self, answer: ToolResult) -> bool:
        """Whether an answer of earlier stands for a large result that is no longer kept."""
        return self._resources.is_gone(answer.value)

    async def use(
        self,
        capability: Capability,
        tool: str,
        arguments: Mapping[str, Any],
        deadline_s: float = 120.0,
        *,
        episode_id: str = "",
        key: str = "",
        progress: Listener | None = None,
    ) -> ToolResult:
        """One call within a capability; ``key`` names it to its server. Never raises but for cancellation.

        ``progress`` is told how far a long call is, at most once in a second.
        """
        started = self._clock.monotonic()
        call = ToolCall(tool, arguments, capability, deadline_s, key)
        passage = Passage(capability, arguments, oplog.json_text(arguments), progress)
        try:
            if self._interceptors:
                answer = await self._intercepted(call, passage, episode_id)
            else:
                answer = await self._admit(call, passage, episode_id)
        except BaseException as error:  # a plugin's edge: a broken interceptor is a failed tool call
            if isinstance(error, asyncio.CancelledError):
                elapsed_ms = math.ceil((self._clock.monotonic() - started) * 1000)
                self._log_row(passage, call, ToolResult(False, error=CANCELLED), episode_id, started, elapsed_ms)
                raise
            if is_passing(error):
                raise
            _log.exception("tool %s: an interceptor failed", tool)
            answer = ToolResult(False, error=E_TOOL, detail=f"{type(error).__name__}: {error}")
        elapsed_ms = math.ceil((self._clock.monotonic() - started) * 1000)
        self._on_event(
            ToolUsed(episode_id, capability.agent_id, capability.role, tool, answer.ok, answer.error, elapsed_ms)
        )
        self._log_row(passage, call, answer, episode_id, started, elapsed_ms)
        return answer

    async def close(self) -> None:
        """Close every server."""
        for server in self.servers.values():
            await server.close()

    # --- through the door -----------------------------------------------------------------------

    async def _intercepted(self, call: ToolCall, passage: Passage, episode_id: str) -> ToolResult:
        who = call.capability
        passing = Intercepted(Point.TOOL_CALL, call, who.agent_id, who.role, episode_id)

        async def work(passing: Intercepted) -> ToolResult:
            return await self._admit(passing.subject, passage, passing.episode_id)

        answer: object = await chain(self._interceptors, passing, work)
        if not is_answer(answer):
            return ToolResult(False, error=E_TOOL, detail=f"an interceptor answered {type(answer).__name__}")
        return answer

    async def _admit(self, call: ToolCall, passage: Passage, episode_id: str) -> ToolResult:
        if refusal := self._refusal(call, passage):
            return refusal
        if ruling := denial(self._policies, call):
            return ToolResult(False, error=E_POLICY, detail=f"{ruling[0]}: {ruling[1]}")
        if call.tool == READ.name:
            return self._resources.read(call)
        if not self.settings.tool_loop_after:
            return await self._made(call, passage, episode_id)
        return await self._unlooped(call, passage, episode_id)

    def _refusal(self, call: ToolCall, passage: Passage) -> ToolResult | None:
        """Why a call may not be made by what the caller holds and by what the tool says of itself."""
        capability = call.capability
        if capability is not passage.given and not _within(capability, passage.given):
            return ToolResult(False, error=E_POLICY, detail="an interceptor made the capability wider")
        if call.tool not in capability.tools and call.tool != READ.name:
            return ToolResult(False, error=E_POLICY, detail=f"{call.tool} is not among this agent's tools")
        spec = self.spec(call.tool)
        if spec is None:
            return ToolResult(False, error=E_POLICY, detail=f"there is no tool {call.tool}")
        if missing := spec.scopes - capability.scopes:
            return ToolResult(False, error=E_POLICY, detail=f"{call.tool} needs the scope {', '.join(sorted(missing))}")
        if not (spec.read_only and not spec.outward) and self.epoch is not None:
            present = self.epoch()
            if capability.epoch != present:
                held = f"this capability is of epoch {capability.epoch}, epoch {present} is in force"
                return ToolResult(False, error=E_EPOCH, detail=f"{held}: act on a message of the present epoch")
        if found := self._schemas[call.tool].problem(call.arguments):
            return ToolResult(False, error=E_ARG, detail=found)
        return None

    async def _unlooped(self, call: ToolCall, passage: Passage, episode_id: str) -> ToolResult:
        who, same = call.capability, call.arguments is passage.arguments
        name = oplog.digest(f"{call.tool} {passage.text if same else oplog.json_text(call.arguments)}")
        if times := self._loops.times(who.role, name):
            if self._loops.is_news(who.role, name):
                self._on_event(LoopDetected(episode_id, who.agent_id, who.role, call.tool, times, name))
            detail = (
                f"{call.tool} gave the same result {times} times: change the arguments, change something, or finish"
            )
            return ToolResult(False, error=E_LOOP, detail=detail)
        result = await self._made(call, passage, episode_id)
        spec = self._tools[call.tool][1]
        said = passage.answer_digest if result.ok and result is passage.answer else f"{result.error} {result.detail}"
        self._loops.note(who.role, name, said, changes=result.ok and not spec.read_only)
        return result

    async def _made(self, call: ToolCall, passage: Passage, episode_id: str) -> ToolResult:
        """The call itself, within the time that is left for it."""
        who, (open_, spec) = call.capability, self._tools[call.tool]
        left = self._time.left(who.agent_id)
        if left < NOTHING_S:
            return ToolResult(False, error=E_BUDGET, detail="the seconds for tools are spent: work with what there is")
        seconds = min(call.deadline_s, left)
        progress = Progress(self._clock, self._on_event, episode_id, call, passage.progress)
        call = ToolCall(call.tool, call.arguments, who, seconds, call.key, progress)
        timeout, spending = asyncio.timeout(seconds), None
        try:
            async with timeout:
                if self._time.bounded:
                    ends = asyncio.get_running_loop().time() + seconds
                    spending = self._time.begin(who.agent_id, ends, timeout)
                answer: object = await open_(call)
        except BaseException as error:  # a plugin's edge: SystemExit from here would end the run
            if is_passing(error):
                raise
            if isinstance(error, TimeoutError) and timeout.expired():
                return self._late(call, seconds)
            _log.exception("tool %s failed", call.tool)
            return ToolResult(False, error=E_TOOL, detail=f"{call.tool}: {type(error).__name__}: {error}")
        finally:
            progress.close()
            self._time.end(spending)
        if not is_answer(answer):
            _log.error("tool %s answered %r", call.tool, answer)
            return ToolResult(False, error=E_TOOL, detail=f"{call.tool}: answered {type(answer).__name__}")
        return self._weighed(call, spec, answer, passage)

    def _late(self, call: ToolCall, seconds: float) -> ToolResult:
        if self._time.left(call.capability.agent_id) < NOTHING_S:
            return ToolResult(False, error=E_BUDGET, detail=f"{call.tool}: cut off, the seconds for tools are spent")
        return ToolResult(False, error=E_TIMEOUT, detail=f"{call.tool}: no answer within {seconds:g} s")

    def _weighed(self, call: ToolCall, spec: ToolSpec, answer: ToolResult, passage: Passage) -> ToolResult:
        """The answer, or what stands in the place of a large one."""
        text = oplog.json_text(answer.value)
        if text is not None and len(text) > self.settings.tool_result_bytes // 4:
            size = len(text.encode("utf-8", "surrogatepass"))
            if size > self.settings.tool_result_bytes:
                answer = replace(answer, value=self._resources.keep(call, spec, answer.value, text))
        passage.answer, passage.answer_text = answer, text
        return answer

    # --- what is told ---------------------------------------------------------------------------

    def _log_row(
        self, passage: Passage, call: ToolCall, answer: ToolResult, episode_id: str, started: float, elapsed_ms: int
    ) -> None:
        self._count += 1
        self._on_event(passage.row(call, answer, self._secrets, episode_id, self._count, started, elapsed_ms))

    def _blocked(self, server: str, call: ToolCall) -> None:
        who = getattr(call, "capability", None)
        agent_id, role = getattr(who, "agent_id", ""), getattr(who, "role", "")
        self._on_event(DirectCallBlocked("", server, str(getattr(call, "tool", "")), agent_id, role))


def _within(narrow: Capability, wide: Capability) -> bool:
    """Whether a capability allows nothing that the other does not."""
    return (
        narrow.workspace is wide.workspace
        and narrow.tools <= wide.tools
        and narrow.scopes <= wide.scopes
        and (narrow.agent_id, narrow.role, narrow.epoch) == (wide.agent_id, wide.role, wide.epoch)
    )
