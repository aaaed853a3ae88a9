"""A tool call: capability, arguments, policies, deadline; every refusal is a result with a code."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from apex_framework import timeloop
from apex_framework.errors import ConfigError
from apex_framework.events import ToolUsed
from apex_framework.interfaces import Capability, Point, Ruling, ToolResult, ToolSpec
from apex_framework.ports import LoopClock
from apex_framework.services import ToolService

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
    "required": ["path"],
    "additionalProperties": False,
}


class Nowhere:
    """A workspace that no tool of these tests touches."""

    root = Path("/nowhere")


CODER = Capability(Nowhere(), frozenset({"fs.read", "fs.gone"}), "coder1", "coder")


class Files:
    """A server whose one tool does what it was given."""

    def __init__(self, act, name="fs.read"):
        self.tools = (ToolSpec(name, "reads", SCHEMA),)
        self.act, self.calls, self.closed = act, [], 0

    async def call(self, call):
        self.calls.append(call)
        return await self.act(call)

    async def close(self):
        self.closed += 1


async def reads(call):
    return ToolResult(True, {"text": call.arguments["path"]})


def use(server, tool="fs.read", arguments=None, *, capability=CODER, deadline_s=120.0, **options):
    """One call on virtual time: (result, events, seconds)."""

    async def work():
        loop, events = asyncio.get_running_loop(), []
        service = ToolService({"fs": server}, clock=LoopClock(loop), on_event=events.append, **options)
        result = await service.use(capability, tool, arguments or {"path": "a.py"}, deadline_s, episode_id="ep1")
        return result, events, loop.time()

    return timeloop.run(work())


def test_a_call_reaches_its_server_with_capability_and_deadline():
    server = Files(reads)
    result, events, _ = use(server, deadline_s=7.0)
    assert result == ToolResult(True, {"text": "a.py"})
    assert (server.calls[0].capability, server.calls[0].deadline_s) == (CODER, 7.0)
    assert events[:1] == [ToolUsed("ep1", "coder1", "coder", "fs.read", True)]


def test_a_tool_outside_the_capability_is_not_called():
    server = Files(reads)
    for capability in (CODER.narrowed(frozenset({"fs.gone"})), CODER.narrowed(frozenset())):
        result, events, _ = use(server, capability=capability)
        assert (result.ok, result.error, events[0].error) == (False, "E_POLICY", "E_POLICY")
    assert "fs.read" in result.detail and server.calls == []
    assert use(server, "fs.gone")[0] == ToolResult(False, error="E_POLICY", detail="there is no tool fs.gone")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"line": 1}, "path"), ({"path": 1}, "path"), ({"path": "a", "line": "1"}, "line"), ({"path": "a", "x": 1}, "x")],
)
def test_wrong_arguments_are_named(arguments, field):
    server = Files(reads)
    result, _, _ = use(server, arguments=arguments)
    assert (result.ok, result.error) == (False, "E_ARG") and result.detail.startswith(f"{field}: ")
    assert server.calls == []


def test_a_deadline_ends_the_call():
    async def sleeps(call):
        await asyncio.sleep(10.0)
        return ToolResult(True)

    result, events, seconds = use(Files(sleeps), deadline_s=2.0)
    assert (result.error, seconds, events[0].elapsed_ms) == ("E_TIMEOUT", 2.0, 2_000)
    assert use(Files(sleeps), deadline_s=20.0)[0].ok


@pytest.mark.parametrize("error", [ValueError("bug"), TimeoutError("its own"), KeyError("x")])
def test_an_exception_of_the_server_is_a_result(error):
    async def raises(call):
        raise error

    result, _, _ = use(Files(raises))
    assert result.error == "E_TOOL" and type(error).__name__ in result.detail


@pytest.mark.parametrize("answer", [None, "text", {"ok": True}, ToolResult(True, value=["no mapping"])])
def test_an_answer_of_the_wrong_type_is_a_failure(answer):
    async def answers(call):
        return answer

    assert use(Files(answers))[0].error == "E_TOOL"


def test_cancellation_passes():
    async def work():
        async def hangs(call):
            await asyncio.sleep(100.0)

        clock = LoopClock(asyncio.get_running_loop())
        service = ToolService({"fs": Files(hangs)}, clock=clock)
        call = asyncio.create_task(service.use(CODER, "fs.read", {"path": "a"}))
        await asyncio.sleep(1.0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    timeloop.run(work())


class Rule:
    """A policy of a stranger."""

    name = "rule"

    def __init__(self, ruling):
        self.ruling = ruling

    def check(self, subject):
        if isinstance(self.ruling, Exception):
            raise self.ruling
        return self.ruling


@pytest.mark.parametrize("ruling", [Ruling(False, "frozen"), ValueError("bug"), None])
def test_a_policy_may_deny(ruling):
    server = Files(reads)
    result, _, _ = use(server, policies=[Rule(Ruling(True)), Rule(ruling)])
    assert result.error == "E_POLICY" and result.detail.startswith("rule: ") and server.calls == []


class Around:
    """An interceptor of a stranger."""

    name = "around"
    points = frozenset({Point.TOOL_CALL})

    def __init__(self, act):
        self.act = act

    async def around(self, passing, proceed):
        return await self.act(passing, proceed)


def test_interceptors_stand_around_tools_and_their_failures_are_results():
    async def instead(passing, proceed):
        assert (passing.subject.tool, passing.role, passing.episode_id) == ("fs.read", "coder", "ep1")
        return ToolResult(True, {"cached": True})

    async def raises(passing, proceed):
        raise RuntimeError("bug")

    async def nonsense(passing, proceed):
        return 7

    assert use(Files(reads), interceptors=[Around(instead)])[0].value == {"cached": True}
    assert use(Files(reads), interceptors=[Around(raises)])[0].error == "E_TOOL"
    assert use(Files(reads), interceptors=[Around(nonsense)])[0].error == "E_TOOL"


def test_an_interceptor_cannot_widen_a_capability_unseen():
    async def other(passing, proceed):
        from dataclasses import replace

        return await proceed(replace(passing, subject=replace(passing.subject, tool="fs.delete")))

    assert use(Files(reads), interceptors=[Around(other)])[0].error == "E_POLICY"


def test_tools_of_the_same_name_are_refused_and_servers_are_closed():
    async def work():
        clock = LoopClock(asyncio.get_running_loop())
        one, two = Files(reads), Files(reads, "git.log")
        service = ToolService({"fs": one, "git": two}, clock=clock)
        assert [spec.name for spec in service.specs] == ["fs.read", "git.log"]
        await service.close()
        assert one.closed == two.closed == 1
        with pytest.raises(ConfigError, match=r"'fs\.read' of server 'b'"):
            ToolService({"a": one, "b": Files(reads)}, clock=clock)

    timeloop.run(work())
