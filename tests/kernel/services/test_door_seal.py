"""Seals: a server that was given to a door is reached through it, or not at all; and that is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from doors import Server, at_door, capability, of

from apex_framework.events import DirectCallBlocked, OperationLogged
from apex_framework.interfaces import ChecksHealth, Health, ToolCall, ToolResult, ToolServer
from apex_framework.services import ToolService
from apex_framework.services.tools import seal, service


class Healthy(Server):
    async def health(self) -> Health:
        return Health(True, "well")


def direct(server_at: Any = lambda door: door.servers["x"]) -> tuple[Any, list[Any], Server]:
    """An agent that was handed a server calls it."""
    server = Server()

    async def scenario(door: Any) -> Any:
        return await server_at(door).call(ToolCall("x.put", {"text": "boo"}, capability()))

    result, events = at_door(scenario, server)
    return result, events, server


def violations() -> list[str]:
    """What a direct call leaves undone of what must be done."""
    result, events, server = direct()
    found = ["the server was reached"] if server.calls else []
    if getattr(result, "error", "") != "E_DIRECT":
        found.append("it was not refused")
    if of(events, DirectCallBlocked) != [DirectCallBlocked("", "x", "x.put", "coder1", "coder")]:
        found.append("it was not told")
    return found


def test_a_direct_call_is_refused_and_told() -> None:
    assert violations() == []


def test_the_same_call_through_the_door_works() -> None:
    server = Server()

    async def scenario(door: Any) -> Any:
        return await door.use(capability(), "x.put", {"text": "boo"})

    result, events = at_door(scenario, server)
    assert result.ok and len(server.calls) == 1 and not of(events, DirectCallBlocked)


def test_a_call_that_is_none_is_refused_as_well() -> None:
    async def scenario(door: Any) -> Any:
        return await door.servers["x"].call({"tool": "x.put"})

    result, events = at_door(scenario)
    assert result.error == "E_DIRECT" and of(events, DirectCallBlocked)[0].server == "x"


def test_a_sealed_server_is_a_server_that_shows_its_tools_its_health_and_closes() -> None:
    server = Healthy()

    async def scenario(door: Any) -> Any:
        under_seal = door.servers["x"]
        assert isinstance(under_seal, ToolServer) and isinstance(under_seal, ChecksHealth)
        assert under_seal.tools == server.tools and not hasattr(under_seal, "calls")
        await door.close()
        return await under_seal.health()

    health, _ = at_door(scenario, server)
    assert health == Health(True, "well") and server.closed == 1

    async def plain(door: Any) -> Any:
        return isinstance(door.servers["x"], ChecksHealth)

    assert at_door(plain)[0] is False


def test_other_methods_of_a_server_are_not_handed_on() -> None:
    async def scenario(door: Any) -> Any:
        return [name for name in ("write_file", "act", "calls") if hasattr(door.servers["x"], name)]

    assert at_door(scenario)[0] == []


def test_planted_a_dropped_seal_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "sealed", lambda name, server, blocked: (server, server.call))
    assert violations() == ["the server was reached", "it was not refused", "it was not told"]


def test_planted_a_seal_that_tells_nobody_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal.SealedServer, "__init__", _silent)
    assert violations() == ["it was not told"]


def _silent(self: Any, name: str, server: Any, blocked: Any) -> None:
    self._name, self._blocked, self._tools = name, lambda server, call: None, lambda: server.tools


def test_a_refused_call_reaches_no_server_and_is_logged() -> None:
    server = Server()

    async def scenario(door: Any) -> Any:
        held = capability("x.look")
        return [await door.use(held, tool, {}) for tool in ("x.put", "x.none", "", "resource.write")]

    results, events = at_door(scenario, server)
    assert [result.error for result in results] == ["E_POLICY"] * 4 and server.calls == []
    assert [row.decision for row in of(events, OperationLogged)] == ["E_POLICY"] * 4


async def cancels_itself(call: ToolCall) -> ToolResult:
    raise asyncio.CancelledError


async def odd_error(call: ToolCall) -> ToolResult:
    return ToolResult(False, {}, error=7, detail=9)  # type: ignore[arg-type]  # what the door must bear


async def odd_ok(call: ToolCall) -> ToolResult:
    return ToolResult("yes", {})  # type: ignore[arg-type]  # what the door must bear


@pytest.mark.parametrize("act", [cancels_itself, odd_error, odd_ok])
def test_a_server_that_answers_wrongly_or_cancels_itself_is_a_broken_tool(act: Any) -> None:
    async def scenario(door: ToolService) -> ToolResult:
        return await door.use(capability(), "x.look", {})

    assert at_door(scenario, Server(act))[0].error == "E_TOOL"


def test_a_caller_that_is_cancelled_stays_cancelled() -> None:
    async def waits(call: ToolCall) -> ToolResult:
        await asyncio.sleep(1000.0)
        return ToolResult(True)

    async def scenario(door: ToolService) -> bool:
        task = asyncio.ensure_future(door.use(capability(), "x.look", {}))
        await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert at_door(scenario, Server(waits))[0] is True
