"""A desk that was kept changes nothing in a later epoch; a handler that outlasts a switch goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from durable_office import ANY, DurableOffice, NoWorkspace, World
from office import TOPOLOGIES, Clerk, Office

from apex_framework.events import EffectInDoubt
from apex_framework.interfaces import AgentContext, AgentID, Capability, Message, ToolCall, ToolResult, ToolSpec
from apex_framework.runtime import Router, SwitchEngine
from apex_framework.services import ToolService
from apex_framework.session.desk import Desk
from apex_framework.session.session import Session
from apex_framework.testing.disk import SimulatedDisk
from apex_framework.timeloop import run

Act = Callable[[Message, AgentContext], Any]


class Sink:
    """``put`` changes something, ``look`` does not."""

    tools = (ToolSpec("sink.put", "", ANY, read_only=False), ToolSpec("sink.look", "", ANY))

    def __init__(self) -> None:
        self.epochs: list[int] = []

    async def call(self, call: ToolCall) -> ToolResult:
        self.epochs.append(call.capability.epoch)
        return ToolResult(True)

    async def close(self) -> None: ...


def office_with_tools(act: Act, **more: Any) -> tuple[Office, Sink]:
    sink = Sink()
    here = Office(Clerk(AgentID("a"), act), Clerk(AgentID("b")), **more)
    tools = frozenset(spec.name for spec in sink.tools)
    here.session = replace(
        here.session,
        services=replace(here.session.services, tools=ToolService({"sink": sink}, clock=here.clock)),
        capability=lambda agent: Capability(NoWorkspace(), tools, str(agent.id), agent.role),
    )
    return here, sink


async def switched(office: Any) -> None:
    """Let an epoch pass, as a switch under running agents does."""
    router: Router = office.router
    engine = SwitchEngine(router, TOPOLOGIES, clock=office.clock, on_busy="migrate")
    before = router.epoch
    await engine.switch_to("chain" if router.table.name != "chain" else "flat")
    assert router.epoch == before + 1


def kept_desk() -> tuple[list[str], list[int]]:
    """An agent uses its desk at work, after a switch at work, and once more long after it."""

    async def scenario() -> tuple[list[str], list[int]]:
        told: list[str] = []

        async def later(context: AgentContext) -> None:
            await asyncio.sleep(1.0)
            told.append((await context.use("sink.put")).error)
            await switched(here)
            told.extend([(await context.use("sink.put")).error, (await context.use("sink.look")).error])

        async def act(message: Message, context: AgentContext) -> None:
            if message.payload.get("kind") == "task":
                told.append((await context.use("sink.put")).error)
                await switched(here)
                told.append((await context.use("sink.put")).error)
                background.append(asyncio.create_task(later(context)))
                await context.send("b", {"kind": "go"})

        async def waits(message: Message, context: AgentContext) -> None:
            await asyncio.gather(*background)

        background: list[asyncio.Task[None]] = []
        here, sink = office_with_tools(act)
        here.agents[AgentID("b")].act = waits  # type: ignore[attr-defined]  # a Clerk
        await here.work()
        return told, sink.epochs

    return run(scenario())


def test_at_work_the_epoch_in_force_counts_and_after_it_the_one_it_was_left_in() -> None:
    told, epochs = kept_desk()
    assert told == ["", "", "", "E_EPOCH", ""]
    start = epochs[0]
    assert epochs == [start, start + 1, start + 1, start + 1]


def test_planted_a_desk_that_never_ends_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Desk, "leave", lambda self: None)
    assert "E_EPOCH" not in kept_desk()[0]


def test_planted_a_door_without_the_sessions_epoch_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    after = Session.__post_init__

    def forgets(self: Session) -> None:
        after(self)
        self.services.tools.epoch = None

    monkeypatch.setattr(Session, "__post_init__", forgets)
    assert "E_EPOCH" not in kept_desk()[0]


def test_a_durable_desk_is_left_the_same_way() -> None:
    async def scenario() -> tuple[list[str], list[EffectInDoubt]]:
        told: list[str] = []
        kept: list[AgentContext] = []
        disk, events = SimulatedDisk(), []

        async def keeps(me: Any, message: Message, context: AgentContext) -> None:
            if message.payload.get("text") == "task":
                told.append((await context.use("sink.fire", text="one")).error)
                kept.append(context)
                await context.send("b", {"text": "go"})

        async def uses(me: Any, message: Message, context: AgentContext) -> None:
            await here.engine.switch_to("chain")
            told.append((await kept[0].use("sink.fire", text="two")).error)

        here = DurableOffice(
            disk.root / "journal", disk, {"a": keeps, "b": uses}, world=World(), on_event=events.append
        )
        await here.work()
        return told, events

    told, events = run(scenario())
    assert told == ["", "E_EPOCH"] and not events
