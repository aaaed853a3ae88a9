"""``cancel_everywhere`` and ``simulate(team=...)``: they find what is wrong, and nothing where all is well."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import Any

import pytest

from apex_framework.interfaces import Agent, AgentContext, AgentID, Brief, Epoch, Member, Message, Roster
from apex_framework.ports import LoopClock
from apex_framework.runtime import Router, RouteTable
from apex_framework.testing import cancel_everywhere, simulate
from apex_lanes.fifo import Fifo
from apex_topologies.chain import Chain
from apex_topologies.star import Star
from apex_transports.inproc import InProcess

PARTS: dict[str, Any] = {
    "topologies": {"star": Star(), "chain": Chain()},
    "lanes": Fifo(),
    "transport": InProcess(),
}


def test_f22_a_lease_cancelled_at_any_callback_loses_no_message_and_no_wake_up() -> None:
    routers: list[Router] = []

    async def scenario() -> None:
        roster = Roster((Member(AgentID("a"), "coder"), Member(AgentID("b"), "critic")), AgentID("a"))
        clock = LoopClock(asyncio.get_running_loop())
        table = RouteTable.compile(Star(), roster)
        router = Router(table, lanes=Fifo(), transport=InProcess(), clock=clock, rng=random.Random(1))
        routers.append(router)

        async def consume() -> None:
            while (lease := await router.lease(AgentID("b"))) is not None:
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    router.nack(lease, "cancelled")
                    raise
                router.ack(lease)

        async with asyncio.TaskGroup() as group:
            consumers = [group.create_task(consume()) for _ in range(2)]
            for number in range(4):
                router.send(Message("e", f"m{number}", AgentID("a"), AgentID("b"), Epoch(0), {}))
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.1)
            for consumer in consumers:
                consumer.cancel()

    def nothing_is_lost() -> None:
        for router in routers[-1:]:  # none yet, when it was cancelled before it began
            assert router.audit().leased == 0

    assert cancel_everywhere(scenario, nothing_is_lost) > 15


def test_what_a_cancelled_run_leaves_is_found() -> None:
    async def leaves_a_task() -> None:
        task = asyncio.ensure_future(asyncio.sleep(10))
        await asyncio.sleep(1)
        await task

    with pytest.raises(AssertionError, match="it left") as caught:
        cancel_everywhere(leaves_a_task)
    assert "cancelled after callback" in caught.value.__notes__[0]


def test_a_swallowed_cancellation_is_found() -> None:
    async def swallows() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

    with pytest.raises(RuntimeError, match="swallowed 10 cancellations") as caught:
        cancel_everywhere(swallows, limit=200)
    assert "the cancellation was swallowed" in str(caught.value.__context__)


def test_what_a_scenario_leaves_behind_is_looked_at_each_time() -> None:
    open_: list[int] = []

    async def forgets() -> None:
        open_.append(1)
        await asyncio.sleep(1)
        open_.pop()

    def closed() -> None:
        assert not open_

    with pytest.raises(AssertionError):
        cancel_everywhere(forgets, closed)


class Worker:
    """Answers its peer, and can do so badly."""

    def __init__(self, id: str, role: str, peer: str, way: str) -> None:
        self.id, self.role, self._peer, self._way = AgentID(id), role, peer, way
        self._handled = 0

    async def handle(self, message: Message, context: AgentContext) -> None:
        self._handled += 1
        answer = await context.ask("what now?", max_tokens=20)
        if self._way == "raises" and not message.payload.get("sections", True):
            message.payload["sections"].append("x")
        if self._way == "vandal":
            message.payload["seen"] = self._handled
        if self._handled < 6:
            await context.send(self._peer, {"n": self._handled, "answer": type(answer).__name__})
        else:
            context.finish("enough")

    def overhear(self, message: Message) -> None:
        pass

    def snapshot(self) -> dict[str, Any]:
        return {"handled": self._handled}

    def restore(self, state: dict[str, Any]) -> None:
        self._handled = state["handled"] + (self._way == "forgetful")


class Pair:
    """A team of two."""

    name = "pair"

    def __init__(self, way: str = "") -> None:
        self._way = way

    def roster(self, size: int | None = None) -> Roster:
        return Roster((Member(AgentID("a"), "coder"), Member(AgentID("b"), "critic")), AgentID("a"))

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        return [Worker("a", "coder", "critic", self._way), Worker("b", "critic", "coder", self._way)]

    def tools(self, role: str) -> frozenset[str]:
        return frozenset()


def test_a_good_team_passes_and_repeats() -> None:
    first, second = (simulate(team=Pair(), seeds=30, **PARTS) for _ in range(2))
    assert not first.violations, first.report()
    assert first == second
    assert first.acked > 100
    assert first.committed > 10
    assert first.faults["exception"] > 10


@pytest.mark.parametrize(("way", "invariant"), [("raises", "agent"), ("vandal", "payload"), ("forgetful", "agent")])
def test_a_bad_team_is_found(way: str, invariant: str) -> None:
    outcome = simulate(team=Pair(way), seeds=30, **PARTS)
    assert outcome.violations[invariant] > 0, outcome.report()
