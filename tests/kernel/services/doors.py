"""A door with one server, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from apex_framework import timeloop
from apex_framework.interfaces import Capability, ToolCall, ToolResult, ToolSpec
from apex_framework.ports import LoopClock
from apex_framework.services import DoorSettings, ToolService

ANY = {"type": "object"}
SPECS = (
    ToolSpec("x.look", "", ANY),
    ToolSpec("x.put", "", ANY, read_only=False),
    ToolSpec("x.call", "", ANY, read_only=False, outward=True, scopes=frozenset({"network"})),
    ToolSpec("x.peek", "", ANY, scopes=frozenset({"network", "secrets"})),
)
NAMES = frozenset(spec.name for spec in SPECS)

Act = Callable[[ToolCall], Awaitable[Any]]


class Nowhere:
    """A workspace that no tool of these tests touches."""

    root = Path("/nowhere")


class Server:
    """A server whose tools all do what it was given; it keeps the calls."""

    tools = SPECS

    def __init__(self, act: Act | None = None) -> None:
        self.act, self.calls, self.closed = act, [], 0

    async def call(self, call: ToolCall) -> Any:
        self.calls.append(call)
        return ToolResult(True, {"did": call.tool}) if self.act is None else await self.act(call)

    async def close(self) -> None:
        self.closed += 1


WORKSPACE = Nowhere()


def capability(*tools: str, agent_id: str = "coder1", role: str = "coder", **more: Any) -> Capability:
    return Capability(WORKSPACE, frozenset(tools) or NAMES, agent_id, role, **more)


def at_door(
    scenario: Callable[[ToolService], Awaitable[Any]],
    server: Server | None = None,
    *,
    limits: Any = None,
    **options: Any,
) -> tuple[Any, list[Any]]:
    """What a scenario returns, and the events of its door."""
    events: list[Any] = []

    async def work() -> Any:
        clock = LoopClock(asyncio.get_running_loop())
        settings = DoorSettings(**(limits or {}))
        door = ToolService({"x": server or Server()}, clock=clock, on_event=events.append, settings=settings, **options)
        return await scenario(door)

    return timeloop.run(work()), events


def of(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]
