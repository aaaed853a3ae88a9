"""Time and loops: what tool calls may take together, and how often the same may come to the same."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from doors import Server, at_door, capability, of

from apex_framework.errors import ConfigError
from apex_framework.events import LoopDetected
from apex_framework.interfaces import ToolCall, ToolResult
from apex_framework.services import DoorSettings
from apex_framework.services.tools.loops import LoopGuard
from apex_framework.services.tools.spending import TimeBudget


async def sleeps(call: ToolCall) -> ToolResult:
    await asyncio.sleep(float(call.arguments.get("s", 1.0)))
    return ToolResult(True, {"deadline": call.deadline_s})


def test_an_agents_seconds_bound_its_deadline_and_then_refuse_it_alone() -> None:
    server = Server(sleeps)

    async def scenario(door: Any) -> Any:
        held, other = capability(), capability(agent_id="coder2")
        first = await door.use(held, "x.look", {"s": 2.0}, 120.0)
        cut = await door.use(held, "x.look", {"s": 9.0}, 120.0)
        at = asyncio.get_running_loop().time()
        return first, cut, at, await door.use(held, "x.look", {}), await door.use(other, "x.look", {"s": 2.0})

    (first, cut, at, refused, other), _ = at_door(scenario, server, limits={"agent_tool_seconds": 5.0})
    assert first.value == {"deadline": 5.0} and server.calls[1].deadline_s == 3.0
    assert (cut.error, refused.error, at) == ("E_BUDGET", "E_BUDGET", 5.0)
    assert other.ok and len(server.calls) == 3


def test_a_calls_own_deadline_is_still_its_own() -> None:
    async def scenario(door: Any) -> Any:
        late = await door.use(capability(), "x.look", {"s": 9.0}, 1.0)
        return late, await door.use(capability(), "x.look", {"s": 1.0}, 1.5)

    (late, after), _ = at_door(scenario, Server(sleeps), limits={"tool_seconds": 5.0})
    assert late.error == "E_TIMEOUT" and after.ok


def test_calls_at_the_same_time_share_what_is_left() -> None:
    async def scenario(door: Any) -> Any:
        calls = [door.use(capability(agent_id=f"a{n}"), "x.look", {"s": 9.0}) for n in range(4)]
        return [r.error for r in await asyncio.gather(*calls)], asyncio.get_running_loop().time()

    (errors, at), _ = at_door(scenario, Server(sleeps), limits={"tool_seconds": 6.0})
    assert (errors, at) == (["E_BUDGET"] * 4, 1.5)


def spent(seed: int) -> float:
    """Seconds that calls at random times took together, under a ceiling of 10."""
    rng, took = random.Random(seed), [0.0]

    async def works(call: ToolCall) -> ToolResult:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await asyncio.sleep(call.arguments["s"])
        finally:
            took[0] += loop.time() - began
        return ToolResult(True)

    async def scenario(door: Any) -> Any:
        async def agent(name: str, calls: list[tuple[float, float]]) -> None:
            for pause, seconds in calls:
                await asyncio.sleep(pause)
                await door.use(capability(agent_id=name), "x.look", {"s": seconds}, rng.choice((0.5, 120.0)))

        plans = {f"a{n}": [(rng.random() * 3, rng.random() * 4) for _ in range(6)] for n in range(5)}
        await asyncio.gather(*[agent(name, plan) for name, plan in plans.items()])

    at_door(scenario, Server(works), limits={"tool_seconds": 10.0, "tool_loop_after": 0})
    return took[0]


def test_whatever_runs_together_the_ceiling_holds() -> None:
    totals = [spent(seed) for seed in range(60)]
    assert max(totals) <= 10.0 + 1e-6 and min(totals) > 5.0


def test_planted_calls_that_do_not_share_show(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(self: TimeBudget, spending: Any, change: int, now: float) -> None:
        for purse in spending.purses:
            purse.left(now)
            purse.running += change

    monkeypatch.setattr(TimeBudget, "_count", alone)
    assert max(spent(seed) for seed in range(60)) > 10.1


@pytest.mark.parametrize(
    "wrong",
    [
        {"tool_seconds": 0.0},
        {"tool_seconds": float("inf")},
        {"agent_tool_seconds": -1.0},
        {"agent_tool_seconds": float("nan")},
        {"tool_loop_after": 1},
        {"tool_loop_after": 65},
        {"tool_result_bytes": 10},
    ],
)
def test_impossible_limits_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        DoorSettings(**wrong)


# --- loops --------------------------------------------------------------------------------------


def many(
    plan: list[tuple[str, dict[str, Any]]], after: int = 3, act: Any = None
) -> tuple[list[str], list[Any], Server]:
    server = Server(act)

    async def scenario(door: Any) -> Any:
        return [(await door.use(capability(role="coder"), tool, arguments)).error for tool, arguments in plan]

    errors, events = at_door(scenario, server, limits={"tool_loop_after": after})
    return errors, of(events, LoopDetected), server


def test_the_same_call_with_the_same_result_is_refused_and_told_once() -> None:
    errors, told, server = many([("x.look", {"a": 1})] * 6)
    assert errors == ["", "", "", "E_LOOP", "E_LOOP", "E_LOOP"] and len(server.calls) == 3
    assert [(e.agent_id, e.role, e.tool, e.times) for e in told] == [("coder1", "coder", "x.look", 3)]


def test_other_arguments_other_results_and_other_roles_are_no_loop() -> None:
    assert set(many([("x.look", {"a": n}) for n in range(9)])[0]) == {""}

    count = [0]

    async def counts(call: ToolCall) -> ToolResult:
        count[0] += 1
        return ToolResult(True, {"n": count[0]})

    assert set(many([("x.look", {})] * 9, act=counts)[0]) == {""}

    async def scenario(door: Any) -> Any:
        return [(await door.use(capability(role=f"r{n % 3}"), "x.look", {})).error for n in range(9)]

    assert set(at_door(scenario, limits={"tool_loop_after": 3})[0]) == {""}


def test_a_change_is_news_and_the_same_change_again_is_not() -> None:
    look, put = ("x.look", {}), ("x.put", {"text": "a"})
    errors, _, _ = many([look, look, put, look, look, put, look, look])
    assert errors == ["", "", "", "", "", "", "", "E_LOOP"]
    errors, _, _ = many([look, look, put, look, look, ("x.put", {"text": "b"}), look, look])
    assert set(errors) == {""}


def test_failures_loop_too() -> None:
    async def fails(call: ToolCall) -> ToolResult:
        return ToolResult(False, error="E_PATCH", detail="does not apply")

    assert many([("x.put", {})] * 4, act=fails)[0] == ["E_PATCH"] * 3 + ["E_LOOP"]


def test_none_by_number_and_the_window_forgets() -> None:
    assert set(many([("x.look", {})] * 40, after=0)[0]) == {""}
    guard = LoopGuard(2, window=4)
    for other in "bcde":
        guard.note("r", "a", "1", changes=False)
        guard.note("r", other, "1", changes=False)
    assert guard.times("r", "a") == 2
    for other in "fghi":
        guard.note("r", other, "1", changes=False)
    assert guard.times("r", "a") == 0


class Plainly(LoopGuard):
    """Counts by looking through all of the window, each time."""

    def times(self, role: str, call: str) -> int:
        kept, self._count = self._count, {(role, call): self._after}
        try:
            return super().times(role, call)
        finally:
            self._count = kept


@pytest.mark.parametrize("seed", range(20))
def test_the_count_is_what_looking_through_the_window_finds(seed: int) -> None:
    rng, guards = random.Random(seed), (LoopGuard(3, window=7), Plainly(3, window=7))
    for _ in range(400):
        role, call, result, changes = rng.choice("rs"), rng.choice("ab"), rng.choice("112"), rng.random() < 0.1
        quick, plain = (guard.times(role, call) for guard in guards)
        assert quick == plain
        for guard in guards:
            guard.note(role, call, result, changes=changes)
        assert len(guards[0]._seen) <= 7 and sum(guards[0]._count.values()) == len(guards[0]._seen)


def test_planted_a_guard_that_forgets_the_result_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    note = LoopGuard.note
    monkeypatch.setattr(LoopGuard, "note", lambda self, r, c, result, *, changes: note(self, r, c, "", changes=changes))
    count = [0]

    async def counts(call: ToolCall) -> ToolResult:
        count[0] += 1
        return ToolResult(True, {"n": count[0]})

    assert "E_LOOP" in many([("x.look", {})] * 9, act=counts)[0]
