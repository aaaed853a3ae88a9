"""Arguments of tools may have any name, also that of the parameter which takes the tool's own."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest
from office import Clerk, NoWorkspace, Office

from apex_framework.interfaces import AgentContext, AgentID, Capability, Message, ToolCall, ToolResult, ToolSpec
from apex_framework.services import ToolService
from apex_framework.session.desk import Desk
from apex_framework.session.durable_desk import DurableDesk
from apex_framework.testing.team import DeskOfRefusal
from apex_framework.timeloop import run


class Index:
    """Looks tools up, so its argument is called ``tool``."""

    tools = (ToolSpec("index.find", "", {"properties": {"tool": {"type": "string"}, "self": {"type": "string"}}}),)

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def call(self, call: ToolCall) -> ToolResult:
        self.asked.append(dict(call.arguments))
        return ToolResult(True)

    async def close(self) -> None: ...


def test_an_argument_may_be_called_tool() -> None:
    index, told = Index(), []

    async def act(message: Message, context: AgentContext) -> None:
        told.append(await context.use("index.find", tool="saw", self="me"))

    async def work() -> None:
        here = Office(Clerk(AgentID("a"), act), Clerk(AgentID("b")))
        here.session = replace(
            here.session,
            services=replace(here.session.services, tools=ToolService({"index": index}, clock=here.clock)),
            capability=lambda agent: Capability(NoWorkspace(), frozenset({"index.find"}), str(agent.id), agent.role),
        )
        await here.work()

    run(work())
    assert [answer.ok for answer in told] == [True] and index.asked == [{"tool": "saw", "self": "me"}]


@pytest.mark.parametrize("kind", [AgentContext, Desk, DurableDesk, DeskOfRefusal])
def test_every_context_takes_the_tools_name_by_position_only(kind: type) -> None:
    of_self, name, _ = inspect.signature(kind.use).parameters.values()  # type: ignore[attr-defined]  # each has it
    assert (of_self.kind, name.kind) == (inspect.Parameter.POSITIONAL_ONLY,) * 2
