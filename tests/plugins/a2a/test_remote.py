"""Remote members: outside agents at work in a session of ours, under deadline, budget, identity and epoch."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCard
from a2a.types import Message as A2AMessage
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from google.protobuf.json_format import MessageToDict, ParseDict
from world import CATALOG, settings

from apex_a2a.bridge import A2ABridge, Outsider
from apex_a2a.cards import our_card
from apex_a2a.dial import check_interfaces
from apex_a2a.envelope import EXTENSION
from apex_a2a.evil import HeldWork
from apex_a2a.remote import RemoteAgent, SdkLine
from apex_a2a.server import serving
from apex_a2a.settings import Remote, Settings
from apex_framework import (
    CallTags,
    Capability,
    Guard,
    Ledger,
    LLMService,
    Router,
    RouteTable,
    Services,
    Session,
    SessionEnd,
    ToolService,
)
from apex_framework.errors import RuntimeFault
from apex_framework.interfaces import AgentContext, AgentID, Member, Message, Roster
from apex_framework.ports import LoopClock
from apex_framework.testing.scripted import ScriptedBackend

CRITIC = AgentID("remote_acme")
ROSTER = Roster((Member(AgentID("planner"), "planner"), Member(CRITIC, "critic")), AgentID("planner"))
REMOTE = Remote("http://127.0.0.1:1", "critic", ("planner",), deadline_s=5.0, price=100, signed=False)


class Planner:
    """Asks the critic, and finishes with what it says."""

    id, role = AgentID("planner"), "planner"

    def __init__(self) -> None:
        self.heard: list[Message] = []

    async def handle(self, message: Message, context: AgentContext) -> None:
        if message.sender == "user":
            await context.send("critic", {"kind": "review", "diff": "-a\n+b"})
            return
        self.heard.append(message)
        context.finish("reviewed")

    def overhear(self, message: Message) -> None: ...


class ScriptedLine:
    """A remote that answers by a function of what it is asked."""

    def __init__(self, answer: Callable[[Mapping[str, Any]], list[dict[str, Any]]], wait_s: float = 0.0) -> None:
        self.answer, self.wait_s = answer, wait_s
        self.asked: list[Mapping[str, Any]] = []
        self.cancelled = 0

    async def ask(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.asked.append(message)
        try:
            await asyncio.sleep(self.wait_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.answer(message)

    async def close(self) -> None: ...


def reply(asked: Mapping[str, Any], text: str = "good", number: int = 1, **changes: Any) -> dict[str, Any]:
    """A well-behaved remote's answer, with changes."""
    told = asked["metadata"][EXTENSION]
    table = {"episode": told["episode"], "epoch": told["epoch"], "audience": told["recipients"][0], **changes}
    parts = [{"data": {"kind": "note", "text": text}}]
    return {"messageId": f"r{number}", "role": "ROLE_AGENT", "parts": parts, "metadata": {EXTENSION: table}}


class Office:
    """A session of a planner and a remote critic."""

    def __init__(self, line: Any, remote: Remote = REMOTE, *, budget: int = 1000) -> None:
        self.line, self.remote, self.budget = line, remote, budget
        self.planner, self.ledger = Planner(), Ledger()

    async def run(self, meanwhile: Callable[[Router], None] | None = None) -> SessionEnd:
        clock, make = LoopClock(asyncio.get_running_loop()), CATALOG.make
        guard = Guard(self.ledger, [make("budget_scope", "episode")], clock=clock)
        self.router = Router(
            RouteTable.compile(make("topology", "flat"), ROSTER),
            lanes=make("lane", "drr_wred"),
            transport=make("transport", "a2a_json"),
            clock=clock,
            rng=random.Random(0),
            max_attempts=2,
        )
        outsiders = {"acme": Outsider("acme", (CRITIC,), frozenset(self.remote.audiences))}
        self.bridge = A2ABridge(self.router, ROSTER, "ep", outsiders, clock=clock)

        def tags(agent: Any) -> CallTags:
            return CallTags("", "ep", str(agent.id), agent.role, self.budget)

        self.critic = RemoteAgent(Member(CRITIC, "critic"), "acme", self.remote, self.line, self.bridge, guard, tags)
        agents = {AgentID("planner"): self.planner, CRITIC: self.critic}
        doors = Services(
            LLMService({"*": ScriptedBackend()}, guard, clock=clock), ToolService({}, clock=clock), guard.headroom
        )
        rights = Capability(None, frozenset())  # type: ignore[arg-type]  # nobody here has a workspace
        session = Session("ep", ROSTER, agents, self.router, doors, tags, lambda agent: rights, clock)
        end = await session.run({"kind": "task"})
        self.spent = self.budget - guard.remaining(tags(self.critic))["episode"]
        return end


def test_an_answer_is_sent_by_the_session_like_every_members_message() -> None:
    office = Office(ScriptedLine(lambda asked: [reply(asked, tokens=40)]))
    end = asyncio.run(office.run())
    assert (end.status, end.reason, end.faults) == ("finished", "reviewed", ())
    (heard,) = office.planner.heard
    assert (heard.sender, heard.payload) == (CRITIC, {"kind": "note", "text": "good"})
    assert office.spent == 40
    (asked,) = office.line.asked
    assert asked["metadata"][EXTENSION]["recipients"] == ["planner"]


@pytest.mark.parametrize(
    ("said", "charged"), [({}, 100), ({"tokens": 0}, 100), ({"tokens": 3}, 7), ({"tokens": 90}, 90)]
)
def test_what_it_says_it_took_is_charged_at_least_the_least_and_the_price_when_it_says_nothing(
    said: dict[str, int], charged: int
) -> None:
    remote = Remote("http://x", "critic", ("planner",), price=100, least=7, signed=False)
    office = Office(ScriptedLine(lambda asked: [reply(asked, **said)]), remote)
    asyncio.run(office.run())
    assert office.spent == charged


def test_a_remote_that_the_budget_does_not_pay_for_is_not_asked() -> None:
    office = Office(ScriptedLine(lambda asked: [reply(asked)]), budget=99)
    end = asyncio.run(office.run())
    assert (end.status, office.line.asked, office.critic.denied, office.spent) == ("quiet", [], 1, 0)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"sender": "planner"}, "E_AUTHZ"),
        ({"audience": "critic"}, "E_AUTHZ"),
        ({"audience": "BROADCAST"}, "E_AUTHZ"),
        ({"epoch": 7}, "E_EPOCH"),
        ({"episode": "other"}, "E_EPOCH"),
        ({"operation": "tool"}, "E_POLICY"),
        ({"surprise": 1}, "E_ARG"),
    ],
)
def test_an_answer_that_oversteps_is_refused_counted_and_paid_for(changes: dict[str, Any], code: str) -> None:
    office = Office(ScriptedLine(lambda asked: [reply(asked, **changes)]))
    end = asyncio.run(office.run())
    assert (end.status, office.planner.heard, office.bridge.refused) == ("quiet", [], {code: 1})
    assert office.spent == 100 and len(office.line.asked) == 1


def test_an_answer_for_an_epoch_that_has_passed_is_refused() -> None:
    office = Office(ScriptedLine(lambda asked: []))

    def answer(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        office.router._epoch = office.router._admit = type(office.router.epoch)(1)  # a switch while it thought
        return [reply(asked)]

    office.line.answer = answer
    asyncio.run(office.run())
    assert office.bridge.refused == {"E_EPOCH": 1} and office.planner.heard == []


def test_an_answer_given_twice_is_heard_once() -> None:
    office = Office(ScriptedLine(lambda asked: [reply(asked), reply(asked)]))
    asyncio.run(office.run())
    assert len(office.planner.heard) == 1


def test_a_remote_that_does_not_answer_in_time_is_cancelled_charged_and_told_of() -> None:
    remote = Remote("http://x", "critic", ("planner",), deadline_s=0.05, price=100, signed=False)
    office = Office(ScriptedLine(lambda asked: [], wait_s=60), remote)
    end = asyncio.run(office.run())
    assert office.line.cancelled == 2 and office.spent == 200
    assert all("no answer within 0.05 s" in fault for fault in end.faults) and len(end.faults) == 2


# --- over the wire, with the official server and client -------------------------------------------


class Critic(AgentExecutor):
    """An outside agent on the official SDK."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        asked = MessageToDict(context.message)
        answer = reply(asked, text=asked["parts"][0]["data"]["diff"], tokens=55)
        await event_queue.enqueue_event(ParseDict(answer, A2AMessage()))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


async def _with_server(scenario: Callable[[str], Any]) -> Any:
    import socket

    import uvicorn
    from starlette.applications import Starlette

    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    card = our_card(Settings(), url + "/", secured=False)
    handler = DefaultRequestHandler(Critic(), InMemoryTaskStore(), card)
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[bound])
    try:
        return await scenario(url)
    finally:
        server.force_exit = True
        await server.shutdown(sockets=[bound])


def test_an_outside_agent_on_the_official_sdk_is_a_member_of_our_team() -> None:
    async def scenario(url: str) -> Office:
        remote = Remote(url, "critic", ("planner",), price=100, signed=False)
        line = SdkLine("acme", remote, {})
        office = Office(line, remote)
        try:
            assert (await office.run()).reason == "reviewed"
        finally:
            await line.close()
        return office

    office = asyncio.run(_with_server(scenario))
    assert [m.payload["text"] for m in office.planner.heard] == ["-a\n+b"] and office.spent == 55


async def _with_grpc_server(scenario: Callable[[str, AgentCard], Any]) -> Any:
    """An agent that speaks gRPC and nothing else: nobody answers for its card."""
    server = grpc.aio.server()
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    card = our_card(Settings(), "http://127.0.0.1/", address, secured=False)
    del card.supported_interfaces[0]
    handler = DefaultRequestHandler(Critic(), InMemoryTaskStore(), card)
    add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
    await server.start()
    try:
        return await scenario(address, card)
    finally:
        await server.stop(0)


def test_an_outside_agent_that_speaks_grpc_alone_is_a_member_of_our_team(tmp_path: Path) -> None:
    async def scenario(address: str, card: AgentCard) -> Office:
        file = tmp_path / "card.json"
        file.write_text(json.dumps(MessageToDict(card)))
        remote = Remote(
            f"http://{address}", "critic", ("planner",), price=100, binding="GRPC", card=str(file), signed=False
        )
        line = SdkLine("acme", remote, {})
        office = Office(line, remote)
        try:
            assert (await office.run()).reason == "reviewed"
        finally:
            await line.close()
        return office

    office = asyncio.run(_with_grpc_server(scenario))
    assert [m.payload["text"] for m in office.planner.heard] == ["-a\n+b"] and office.spent == 55


def test_a_token_goes_over_grpc_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ours asks for one: with it a remote is answered, without it it is not."""

    async def main() -> None:
        async with serving(settings(), CATALOG, work=HeldWork(CATALOG, hold=False)) as running:
            for token, words in (("t-alice", None), ("t-nobody", "E_AUTH")):
                monkeypatch.setenv("ACME_TOKEN", token)
                remote = Remote(running.url, "critic", (), token_env="ACME_TOKEN", binding="GRPC", signed=False)
                line = SdkLine("acme", remote, {})
                asked = line.ask({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]})
                if words is None:
                    (answer,) = await asked
                    assert "What I need" in answer["parts"][0]["text"]
                else:
                    with pytest.raises(RuntimeFault, match=words):
                        await asked
                await line.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("binding", "address", "words"),
    [
        ("GRPC", "", "offers JSONRPC, not GRPC"),
        ("GRPC", "evil.example:1", "names another host"),
        ("GRPC", "http://127.0.0.1@evil.example:1", "names another host"),
        ("JSONRPC", "", ""),
    ],
)
def test_a_card_is_followed_to_the_configured_host_alone(binding: str, address: str, words: str) -> None:
    card = our_card(Settings(), "http://127.0.0.1:1/", address, secured=False)
    remote = Remote("http://127.0.0.1:1", "critic", (), binding=binding, signed=False)
    if not words:
        check_interfaces("acme", remote, card)
        return
    with pytest.raises(RuntimeFault, match=words):
        check_interfaces("acme", remote, card)


def test_an_unsigned_card_is_not_believed_when_it_must_be_signed() -> None:
    async def scenario(url: str) -> None:
        line = SdkLine("acme", Remote(url, "critic", ("planner",)), {})
        with pytest.raises(RuntimeFault, match="E_CARD"):
            await line.ask({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]})
        await line.close()

    asyncio.run(_with_server(scenario))


@pytest.mark.parametrize("head", [b"", b"Content-Encoding: gzip\r\n"])
def test_a_card_without_end_is_not_read_into_memory(head: bytes) -> None:
    """Nor is a small one that unpacks to a large one."""
    sent = 0

    async def main() -> None:
        async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + head + b"\r\n")
            with contextlib.suppress(ConnectionError):
                while sent < 64 * 2**20:
                    writer.write(b"[" * 65_536)
                    sent += 65_536
                    await writer.drain()
            writer.close()

        server = await asyncio.start_server(pour, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            line = SdkLine("acme", Remote(url, "critic", ("planner",), deadline_s=5.0, signed=False), {})
            with pytest.raises(RuntimeFault, match=r"too large|compressed"):
                await line.ask({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]})
            await line.close()

    asyncio.run(main())
    assert sent < 32 * 2**20


def test_a_remote_that_is_not_there_is_a_fault_with_its_name() -> None:
    async def main() -> None:
        line = SdkLine("acme", REMOTE, {})
        with pytest.raises(RuntimeFault, match="remote acme: Connect"):
            await line.ask({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]})

    asyncio.run(main())
