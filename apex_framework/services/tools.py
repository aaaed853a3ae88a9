"""The door to tools: capability, arguments, policies, deadline; every refusal is a result with a code."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ConfigError
from ..events import Event, ToolUsed
from ..interfaces.interceptor import Intercepted, Interceptor, Point
from ..interfaces.policy import Policy
from ..interfaces.tool import Capability, ToolCall, ToolResult, ToolServer, ToolSpec
from ..ports import Clock
from .advice import chain, denial
from .schema import problem

_log = logging.getLogger(__name__)

E_POLICY = "E_POLICY"
"""The capability or a policy does not allow this tool."""
E_ARG = "E_ARG"
"""An argument does not fit the tool's schema; ``detail`` begins with its name."""
E_TIMEOUT = "E_TIMEOUT"
"""The tool did not answer within its deadline."""
E_TOOL = "E_TOOL"
"""The tool, or an interceptor around it, is broken: an exception or an answer that is none."""


class ToolService:
    """Calls tools by name. Raises ConfigError when two servers have a tool of the same name."""

    def __init__(
        self,
        servers: Mapping[str, ToolServer],
        *,
        clock: Clock,
        policies: Sequence[Policy] = (),
        interceptors: Sequence[Interceptor] = (),
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self._servers = dict(servers)
        self._clock = clock
        self._policies = tuple(policies)
        self._interceptors = tuple(interceptors)
        self._on_event = on_event or (lambda event: None)
        self._tools: dict[str, tuple[ToolServer, ToolSpec]] = {}
        for name, server in self._servers.items():
            for spec in server.tools:
                if spec.name in self._tools:
                    raise ConfigError(f"tool {spec.name!r} of server {name!r} exists already")
                self._tools[spec.name] = (server, spec)

    def spec(self, tool: str) -> ToolSpec | None:
        """What is known of a tool; None when there is none of this name."""
        found = self._tools.get(tool)
        return found[1] if found is not None else None

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Every tool there is, in order of servers."""
        return tuple([spec for _, spec in self._tools.values()])

    async def use(
        self,
        capability: Capability,
        tool: str,
        arguments: Mapping[str, Any],
        deadline_s: float = 120.0,
        *,
        episode_id: str = "",
        key: str = "",
    ) -> ToolResult:
        """One call within a capability; ``key`` names it to its server. Never raises but for cancellation."""
        started = self._clock.monotonic()
        call = ToolCall(tool, arguments, capability, deadline_s, key)
        passing = Intercepted(Point.TOOL_CALL, call, capability.agent_id, capability.role, episode_id)
        try:
            answer: object = await chain(self._interceptors, passing, self._admit)
            if not isinstance(answer, ToolResult):
                answer = ToolResult(False, error=E_TOOL, detail=f"an interceptor answered {type(answer).__name__}")
        except Exception as error:  # noqa: BLE001 - a plugin's edge: a broken interceptor is a failed tool call
            _log.exception("tool %s: an interceptor failed", tool)
            answer = ToolResult(False, error=E_TOOL, detail=f"{type(error).__name__}: {error}")
        elapsed_ms = math.ceil((self._clock.monotonic() - started) * 1000)
        self._on_event(
            ToolUsed(episode_id, capability.agent_id, capability.role, tool, answer.ok, answer.error, elapsed_ms)
        )
        return answer

    async def close(self) -> None:
        """Close every server."""
        for server in self._servers.values():
            await server.close()

    async def _admit(self, passing: Intercepted) -> ToolResult:
        call: ToolCall = passing.subject
        if call.tool not in call.capability.tools:
            return ToolResult(False, error=E_POLICY, detail=f"{call.tool} is not among this agent's tools")
        if call.tool not in self._tools:
            return ToolResult(False, error=E_POLICY, detail=f"there is no tool {call.tool}")
        server, spec = self._tools[call.tool]
        if found := problem(call.arguments, {"type": "object", **spec.schema}):
            return ToolResult(False, error=E_ARG, detail=found)
        if ruling := denial(self._policies, call):
            return ToolResult(False, error=E_POLICY, detail=f"{ruling[0]}: {ruling[1]}")
        return await _call(server, call)


async def _call(server: ToolServer, call: ToolCall) -> ToolResult:
    deadline = asyncio.timeout(call.deadline_s)
    try:
        async with deadline:
            answer: object = await server.call(call)
    except Exception as error:  # noqa: BLE001 - a plugin's edge: a broken tool is a failed call
        if isinstance(error, TimeoutError) and deadline.expired():
            return ToolResult(False, error=E_TIMEOUT, detail=f"{call.tool}: no answer within {call.deadline_s:g} s")
        _log.exception("tool %s failed", call.tool)
        return ToolResult(False, error=E_TOOL, detail=f"{call.tool}: {type(error).__name__}: {error}")
    if not isinstance(answer, ToolResult) or not isinstance(answer.value, Mapping):
        _log.error("tool %s answered %r", call.tool, answer)
        return ToolResult(False, error=E_TOOL, detail=f"{call.tool}: answered {type(answer).__name__}")
    return answer
