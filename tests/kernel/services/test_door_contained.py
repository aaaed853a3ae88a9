"""What a tool server or an interceptor raises ends its call, never the run; what comes from outside passes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import pytest
from doors import Server, at_door, capability, of

from apex_framework.errors import ConfigError
from apex_framework.events import OperationLogged, ToolUsed
from apex_framework.interfaces import ToolCall, ToolResult
from apex_framework.interfaces.interceptor import Point
from apex_framework.ports import SystemClock
from apex_framework.services import ToolService
from apex_framework.services.tools import service
from apex_framework.timelimit import TimeLimitExceeded, time_limit


class Own(BaseException):
    """A kind of its own that no handler for Exception sees."""


KINDS = (SystemExit, KeyboardInterrupt, GeneratorExit, BaseException, Own, asyncio.CancelledError, StopAsyncIteration,
         MemoryError, RecursionError, ConfigError, BaseExceptionGroup)  # fmt: skip


def made(kind: type[BaseException]) -> BaseException:
    return BaseExceptionGroup("both", [SystemExit(1), Own()]) if kind is BaseExceptionGroup else kind("boom")


def raising(kind: type[BaseException], late: bool = False) -> Any:
    async def act(call: ToolCall) -> ToolResult:
        if late:
            await asyncio.sleep(0.5)
        raise made(kind)

    return act


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_whatever_a_server_raises_is_a_failed_call(kind: type[BaseException], late: bool) -> None:
    async def scenario(door: ToolService) -> list[ToolResult]:
        return [await door.use(capability(), tool, {}) for tool in ("x.look", "x.put")]

    results, events = at_door(scenario, Server(raising(kind, late)))
    assert [result.error for result in results] == ["E_TOOL"] * 2 and all(r.detail for r in results)
    assert [row.decision for row in of(events, OperationLogged)] == ["E_TOOL"] * 2 and len(of(events, ToolUsed)) == 2


def test_a_server_that_exits_is_a_failed_call() -> None:
    async def act(call: ToolCall) -> ToolResult:
        sys.exit("bye")

    async def scenario(door: ToolService) -> ToolResult:
        return await door.use(capability(), "x.look", {})

    assert at_door(scenario, Server(act))[0] == ToolResult(False, error="E_TOOL", detail="x.look: SystemExit: bye")


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, Own])
def test_whatever_an_interceptor_raises_is_a_failed_call(kind: type[BaseException]) -> None:
    class Broken:
        name, points = "broken", frozenset({Point.TOOL_CALL})

        async def around(self, passing: Any, proceed: Any) -> Any:
            raise made(kind)

    async def scenario(door: ToolService) -> ToolResult:
        return await door.use(capability(), "x.look", {})

    assert at_door(scenario, interceptors=[Broken()])[0].error == "E_TOOL"


def test_a_call_that_is_closed_stays_closed() -> None:
    """Nothing is answered to a call whose coroutine is closed, and its server is closed with it."""
    ended = []

    async def act(call: ToolCall) -> ToolResult:
        try:
            await asyncio.sleep(1000.0)
        finally:
            ended.append(sys.exception())
        return ToolResult(True)

    async def scenario(door: ToolService) -> bool:
        call = door.use(capability(), "x.look", {})
        call.send(None)
        call.close()
        return call.cr_frame is None

    closed, events = at_door(scenario, Server(act))
    assert closed and isinstance(ended[0], GeneratorExit) and not of(events, ToolUsed)


def test_ctrl_c_during_a_call_ends_the_run() -> None:
    async def act(call: ToolCall) -> ToolResult:
        signal.raise_signal(signal.SIGINT)
        while True:
            len("x")

    async def scenario(door: ToolService) -> ToolResult:
        return await door.use(capability(), "x.look", {})

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            at_door(scenario, Server(act))
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timer")
def test_a_time_limit_around_a_call_holds() -> None:
    async def act(call: ToolCall) -> ToolResult:
        os.kill(os.getpid(), signal.SIGALRM)
        while True:
            len("x")

    async def scenario(door: ToolService) -> ToolResult:
        return await door.use(capability(), "x.look", {})

    with pytest.raises(TimeLimitExceeded), time_limit(60.0):
        at_door(scenario, Server(act))


def test_planted_a_door_that_lets_everything_pass_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "is_passing", lambda error: not isinstance(error, Exception))
    with pytest.raises(SystemExit):
        test_whatever_a_server_raises_is_a_failed_call(SystemExit, late=False)


def test_planted_a_door_that_lets_nothing_pass_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "is_passing", lambda error: False)
    with pytest.raises((AssertionError, RuntimeError, StopIteration, pytest.fail.Exception)):
        test_a_call_that_is_closed_stays_closed()


def test_a45_two_servers_with_one_name_of_a_tool_are_refused() -> None:
    """The second cannot stand before the first, nor behind it."""
    first, second = Server(), Server()
    second.tools = first.tools[:1]
    for servers in ({"x": first, "y": second}, {"y": second, "x": first}):
        with pytest.raises(ConfigError, match=r"x\.look.*exists already"):
            ToolService(servers, clock=SystemClock())
