"""PREPARE: warm-ups together or one after the other, each under a deadline that holds whatever it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from logbook import Logbook
from rig import Rig, on_virtual_time

from apex_framework.interfaces import AgentID, Member, Roster
from apex_framework.runtime import SwitchResult
from apex_framework.runtime.switch import SwitchEngine
from apex_framework.timeloop import run

Warm = Callable[[], Awaitable[None]]


def takes(seconds: float, log: list[str] | None = None, name: str = "") -> Warm:
    async def warm() -> None:
        if log is not None:
            log.append(f"{name} begins")
        await asyncio.sleep(seconds)
        if log is not None:
            log.append(f"{name} ends")

    return warm


async def swallows() -> None:
    """Takes every cancellation for nothing, for ten seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + 10
    while loop.time() < end:
        try:
            await asyncio.sleep(end - loop.time())
        except asyncio.CancelledError:
            continue


async def exits() -> None:
    raise SystemExit(3)


async def cancels_itself() -> None:
    raise asyncio.CancelledError


async def fails() -> None:
    raise OSError("cold")


@pytest.mark.parametrize(("parallel", "ms"), [(True, 30.0), (False, 60.0)])
def test_warm_ups_run_together_or_for_the_ablation_one_after_the_other(parallel: bool, ms: float) -> None:
    async def main() -> None:
        warm_ups = [takes(0.01), takes(0.02), takes(0.03)]
        rig = Rig("star", engine={"prepare": warm_ups, "parallel_prepare": parallel})
        result = await rig.engine.switch_to("chain")
        assert result.ok and result.stats.phase_ms["prepare"] == pytest.approx(ms)
        assert result.stats.total_ms == pytest.approx(ms)

    run(main())


@on_virtual_time
async def test_the_table_is_compiled_while_the_warm_ups_wait() -> None:
    log: list[str] = []
    rig = Rig("star", engine={"prepare": {"coder": takes(0.01, log, "coder")}})
    built = rig.engine._built

    def noted(*args: object) -> object:
        log.append("table")
        return built(*args)  # type: ignore[arg-type]  # passed on

    rig.engine._built = noted  # type: ignore[assignment,method-assign]  # a witness
    assert (await rig.engine.switch_to("chain")).ok
    assert log == ["coder begins", "table", "coder ends"]


@on_virtual_time
async def test_without_warm_ups_a_quiet_switch_gives_nobody_a_turn() -> None:
    rig = Rig("star")
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    assert (await rig.engine.switch_to("chain")).ok and turns == []


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize(
    ("warm", "reason", "detail", "ms"),
    [
        (fails, "prepare_failed", "warm-up coder: OSError: cold", 0.0),
        (exits, "prepare_failed", "warm-up coder: SystemExit: 3", 0.0),
        (cancels_itself, "prepare_failed", "warm-up coder: CancelledError", 0.0),
        (takes(10_000), "prepare_deadline", "warm-up coder: no answer within 40 ms", 40.0),
        (swallows, "prepare_deadline", "warm-up coder: no answer within 40 ms", 40.0),
    ],
)
def test_f12_whoever_dies_hangs_or_refuses_in_prepare_aborts_the_switch_in_time(
    warm: Warm, reason: str, detail: str, ms: float, parallel: bool
) -> None:
    async def main() -> None:
        log = Logbook()
        settings = {"prepare": {"coder": warm, "critic": takes(0.0)}, "prepare_deadline_ms": 40.0, "log": log}
        rig = Rig("star", engine={**settings, "parallel_prepare": parallel})
        result = await rig.engine.switch_to("chain")
        assert (result.ok, result.reason, result.detail) == (False, reason, detail)
        assert result.stats.total_ms == pytest.approx(ms, abs=1e-6)
        assert log.words == ["intent", f"abort {reason}"] and rig.engine.aborted == {reason: 1}
        assert rig.send("planner", "coder") and rig.pass_on("coder") == "m1"
        assert rig.engine.active() == ("star", 0)

    run(main())


@on_virtual_time
async def test_f12_the_messages_of_a_member_that_died_in_prepare_end_as_dead_letters_when_it_leaves_the_roster() -> (
    None
):
    async def dies() -> None:
        raise RuntimeError("agent is gone")

    rig = Rig("flat", engine={"prepare": {"critic": dies}})
    rig.send("planner", "critic")
    assert (await rig.engine.switch_to("chain")).reason == "prepare_failed"
    members = tuple(m for m in rig.roster.members if m.id != "critic")
    engine = SwitchEngine(rig.router, rig.engine.topologies, clock=rig.clock, on_busy="migrate")
    held = rig.take("critic")
    rig.send("planner", "critic")
    assert (await engine.switch_to("chain", Roster(members, AgentID("planner")))).ok
    rig.router.nack(held, "gone")
    assert rig.router.audit().dead == {"recipient_gone": 2}
    assert Member(AgentID("critic"), "critic") not in rig.router.table.roster.members


@on_virtual_time
async def test_f23_a_warm_up_that_swallows_cancellation_is_left_behind_and_cancelled_again() -> None:
    cancellations: list[float] = []
    loop = asyncio.get_running_loop()

    async def stubborn() -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                cancellations.append(loop.time())

    rig = Rig("star", engine={"prepare": [stubborn], "prepare_deadline_ms": 100.0})
    assert (await rig.engine.switch_to("chain")).reason == "prepare_deadline"
    assert rig.engine._patience.left == 1
    await asyncio.sleep(1)
    assert cancellations == [pytest.approx(0.1), pytest.approx(0.2)] and rig.engine._patience.left == 0


@on_virtual_time
async def test_cancelling_a_switch_does_not_wait_for_a_warm_up_that_swallows_it() -> None:
    loop = asyncio.get_running_loop()
    rig = Rig("star", engine={"prepare": [swallows, takes(5)], "prepare_deadline_ms": 6000.0})
    switching = asyncio.ensure_future(rig.engine.switch_to("chain"))
    await asyncio.sleep(0.5)
    switching.cancel()
    await asyncio.wait([switching])
    assert switching.cancelled() and loop.time() == 0.5
    assert rig.engine.aborted == {"cancelled": 1}


@pytest.mark.parametrize("on_busy", ["drain", "migrate"])
@pytest.mark.parametrize("deadline_ms", [0.0, 50.0, 75.0])
def test_f11_a_stuck_handler_costs_the_deadline_and_no_more(deadline_ms: float, on_busy: str) -> None:
    async def main() -> None:
        rig = Rig("flat", engine={"deadline_ms": deadline_ms, "on_busy": on_busy})
        rig.send("planner", "coder")
        stuck = rig.take("coder")
        rig.send("planner", "coder")
        loop = asyncio.get_running_loop()
        result: SwitchResult = await rig.engine.switch_to("star")
        if on_busy == "migrate":
            assert result.ok and loop.time() == 0.0
            return
        assert (result.reason, result.detail) == ("quiesce_deadline", "messages wait for coder")
        assert loop.time() == pytest.approx(deadline_ms / 1000)
        assert stuck.live and rig.router.ack(stuck) and rig.pass_on("coder") == "m2"

    run(main())
