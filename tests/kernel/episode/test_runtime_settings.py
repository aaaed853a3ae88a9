"""What an arm says about the runtime really happens in its episodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from stage import Stage

from apex_framework.benches.overhead import NullSuite, PingPong
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import (
    STAY,
    Agent,
    AgentContext,
    AgentID,
    Brief,
    Decision,
    EpisodeContext,
    EpisodeResult,
    Health,
    LLMRequest,
    LLMResult,
    Member,
    Message,
    MessagePriority,
    Observation,
    Roster,
    Transition,
)
from apex_framework.testing.scripted import ScriptedBackend

FLOOD = 400


class Slow:
    """Takes 12 ms of the machine's time for each of its first decisions, then none; wishes for the star, always."""

    name = "slow"

    def begin(self, context: EpisodeContext) -> None:
        self._left = 22

    def decide(self, observation: Observation) -> Decision:
        self._left -= 1
        if self._left > 0:
            time.sleep(0.012)
        return Decision("star" if observation.topology != "star" else STAY)

    def learn(self, transition: Transition) -> None:
        """Nothing."""


class Flooded:
    """The lead sends far more drafts than the other's lane holds, then one step after the other."""

    name = "flooded"

    def roster(self, size: int | None = None) -> Roster:
        return Roster((Member(AgentID("lead"), "planner"), Member(AgentID("other"), "coder")), AgentID("lead"))

    def agents(self, roster: Roster, brief: Brief) -> Sequence[Agent]:
        return [_Lead(), _Other()]

    def tools(self, role: str) -> frozenset[str]:
        return frozenset()


class _Lead:
    id, role = AgentID("lead"), "planner"

    async def handle(self, message: Message, context: AgentContext) -> None:
        for n in range(FLOOD):
            await context.send("other", {"n": n}, priority=MessagePriority.DRAFT)
        await context.send("other", {"n": "last"}, priority=MessagePriority.FINAL)

    def overhear(self, message: Message) -> None:
        """Two agents have nobody between them."""


class _Other:
    id, role = AgentID("other"), "coder"

    async def handle(self, message: Message, context: AgentContext) -> None:
        await asyncio.sleep(0.5)

    def overhear(self, message: Message) -> None:
        """Two agents have nobody between them."""


class Sick(ScriptedBackend):
    """Answers, and says that it is not well."""

    async def health(self) -> Health:
        return Health(False, "the model is being unloaded")


class Costly(ScriptedBackend):
    """Says that every call cost far more than was reserved for it."""

    async def generate(self, request: LLMRequest) -> LLMResult:
        result = await super().generate(request)
        return replace(result, tokens_in=result.tokens_in + 10_000)


class Extras(ApexSpec):
    @hookimpl
    def apex_llm_backends(self, add: Any) -> None:
        add("sick", Sick)
        add("costly", Costly)

    @hookimpl
    def apex_teams(self, add: Any) -> None:
        add("flooded", Flooded)
        add("ping_pong", PingPong)

    @hookimpl
    def apex_suites(self, add: Any) -> None:
        add("null", NullSuite)

    @hookimpl
    def apex_controllers(self, add: Any) -> None:
        add("slow", Slow)


@pytest.fixture
def null() -> Iterator[Stage]:
    stage = Stage(suite="null", extras=Extras())
    yield stage
    stage.close()


def play(stage: Stage, task: str, run: dict[str, Any] | None = None, **arm: Any) -> EpisodeResult:
    usual: dict[str, Any] = {"backends": {"*": "scripted"}, "budget": 1_000_000, "tools": ()}
    return stage.play(task, run=run, **{**usual, **arm})


def events(result: EpisodeResult, kind: str) -> list[Any]:
    return [row for row in result.events if row["event"] == kind]


def test_a_target_is_probed_before_a_switch_and_the_probe_is_a_phase_of_it(stage: Stage) -> None:
    plain = stage.play("clamp", controller="random_switch:1.0")
    probed = stage.play("clamp", controller="random_switch:1.0", prevalidate=True)
    assert events(plain, "TopologyProbed") == [] and all("probe" not in row["phase_ms"] for row in plain.switches)
    assert probed.switches and all("probe" in row["phase_ms"] for row in probed.switches)
    assert len(events(probed, "TopologyProbed")) == len(probed.switches)


def test_no_switch_is_made_while_a_backend_says_that_it_is_not_well(null: Stage) -> None:
    arm: dict[str, Any] = {"team": "ping_pong", "controller": "random_switch:1.0", "dwell": 0, "cooldown": 0}
    well = play(null, "12", prevalidate=True, **arm)
    sick = play(null, "12", prevalidate=True, backends={"*": "sick"}, **arm)
    assert well.switches and sick.switches == ()
    probed = events(sick, "TopologyProbed")
    assert probed and all("being unloaded" in row["details"]["backend sick"] for row in probed)


def test_a_slow_controller_is_pinned_to_the_chain_under_real_time_and_its_wishes_are_refused(null: Stage) -> None:
    arm: dict[str, Any] = {"team": "ping_pong", "controller": "slow", "dwell": 0, "cooldown": 0, "max_steps": 200}
    result = play(null, "60", {"real_time": True}, health_pin=True, **arm)
    pinned = events(result, "HealthPinned")
    assert [row["pinned"] for row in pinned][:1] == [True] and "controller p95" in pinned[0]["reason"]
    assert result.switches[-1]["target"] == "chain" and result.switches[-1]["ok"]
    free = play(null, "60", {"real_time": True}, **arm)
    assert events(free, "HealthPinned") == [] and all(row["target"] == "star" for row in free.switches)


def test_calls_that_cost_more_than_was_reserved_pin_in_virtual_time_too(null: Stage) -> None:
    arm: dict[str, Any] = {"team": "ping_pong", "controller": "static:star", "health_pin": True, "budget": 10**9}
    pinned = events(play(null, "60", backends={"*": "costly"}, **arm), "HealthPinned")
    assert [row["pinned"] for row in pinned][:1] == [True] and "violations" in pinned[0]["reason"]
    assert events(play(null, "60", **arm), "HealthPinned") == []


def test_in_virtual_time_deciding_takes_no_time_and_nothing_is_pinned(null: Stage) -> None:
    result = play(null, "40", team="ping_pong", controller="slow", health_pin=True, max_steps=200)
    assert events(result, "HealthPinned") == []


def test_sustained_refusing_asks_for_the_relief_topology(null: Stage) -> None:
    arm: dict[str, Any] = {"team": "flooded", "controller": "static:star", "lane": "drr_wred", "lane_capacity": 20}
    arm |= {"dwell": 0, "cooldown": 0, "max_steps": 30}
    result = play(null, "1", throttle=True, relief="flat", **arm)
    rungs = [row["rung"] for row in events(result, "PressureChanged")]
    assert rungs[:1] == ["throttle"] and "reconfigure" in rungs
    assert "flat" in [row["target"] for row in result.switches]
    assert events(play(null, "1", **arm), "PressureChanged") == []


def test_bytes_in_front_of_an_agent_are_capped(null: Stage) -> None:
    arm: dict[str, Any] = {"team": "flooded", "controller": "static:star", "max_steps": 500}
    free, capped = play(null, "1", **arm), play(null, "1", lane_bytes=200, **arm)
    refused = [row for row in capped.trace if row["what"] == "refused"]
    assert refused and not [row for row in free.trace if row["what"] == "refused"]
