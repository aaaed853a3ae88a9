"""Byte caps, the ladder, strict order of pairs, the retry budget: each does what it says, and nothing by default."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from rig import Rig, on_virtual_time, team

from apex_framework.events import PressureChanged
from apex_framework.interfaces import AgentID, MessagePriority, RouteResult
from apex_framework.runtime.pressure import RetryBudget, Throttle
from apex_framework.testing.history import HistoryChecker
from apex_framework.timeloop import run
from apex_lanes.drr_wred import DrrWred

CODER = AgentID("coder")
FINAL, DRAFT, CRITIC = MessagePriority


def text(size: int) -> dict[str, str]:
    """A payload of so many bytes."""
    return {"t": "x" * (size - len('{"t":""}'))}


# --- bytes ---------------------------------------------------------------------------------------


@on_virtual_time
async def test_a_lane_holds_no_more_bytes_than_its_cap() -> None:
    rig = Rig("flat", lane_bytes=1000)
    assert [bool(rig.send("planner", "coder", text(400))) for _ in range(3)] == [True, True, False]
    assert rig.events[-1].reason == "lane_bytes" and rig.send("planner", "runner", text(1000))
    assert rig.send("planner", "coder", text(200)) and not rig.send("planner", "coder", text(9))
    rig.router.ack(rig.take("coder"))
    assert rig.send("planner", "coder", text(400))
    assert rig.router.audit().refused == {"dropped_full": 2}


@on_virtual_time
async def test_all_lanes_and_the_gate_hold_no_more_bytes_than_their_cap() -> None:
    rig = Rig("flat", total_bytes=1000)
    assert rig.send("planner", "coder", text(500)) and rig.send("planner", "runner", text(400))
    assert rig.send("planner", "critic", text(101)) is RouteResult.FULL
    assert rig.events[-1].reason == "total_bytes"
    rig.engine._gate.shut()
    assert rig.send("planner", "critic", text(101)) is RouteResult.FULL
    assert rig.send("planner", "critic", text(100)) is RouteResult.ENQUEUED
    rig.engine._gate.abort()
    for agent in ("coder", "runner", "critic"):
        rig.pass_on(agent)
    assert rig.send("planner", "critic", text(1000))


@on_virtual_time
async def test_bytes_count_in_hands_and_in_backoff_until_the_end() -> None:
    rig = Rig("flat", lane_bytes=500, max_attempts=2)
    rig.send("planner", "coder", text(500))
    lease = rig.take("coder")
    assert not rig.send("planner", "coder", text(8))
    rig.router.nack(lease, "again")
    assert not rig.send("planner", "coder", text(8))
    await asyncio.sleep(0.2)
    rig.router.nack(rig.take("coder"), "never")
    assert rig.router.audit().dead == {"max_retries": 1}
    assert rig.send("planner", "coder", text(500))


@on_virtual_time
async def test_what_was_admitted_passes_the_caps() -> None:
    """A relay may always pass on what it has, and a switch carries everything over."""
    rig = Rig("star", lane_bytes=500, engine={"on_busy": "migrate"})
    rig.send("coder", "critic", text(500))
    relay = rig.take("planner")
    assert rig.send("planner", "critic", text(400))
    rig.router.ack(relay)
    assert rig.router._boxes[AgentID("critic")].bytes == 900
    rig.take("critic")
    assert (await rig.engine.switch_to("chain")).ok
    assert rig.router._bytes is not None
    assert sum(box.bytes for box in rig.router._boxes.values()) == rig.router._bytes.total == 900


@pytest.mark.parametrize("options", [{"lane_bytes": 0}, {"total_bytes": -1}])
def test_a_cap_is_at_least_one_byte(options: dict[str, int]) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="not at least 1 byte"):
            Rig("flat", **options)

    run(main())


# --- the ladder ----------------------------------------------------------------------------------


def pressed(capacity: int = 100, **throttle: Any) -> tuple[Rig, list[PressureChanged]]:
    told: list[PressureChanged] = []
    options = {"above": 0.5, "longest_s": 0.1, "sheds": 20, "within_s": 1.0, **throttle}
    rig = Rig("flat", lanes=DrrWred(), capacity=capacity, throttle=Throttle(**options), on_pressure=told.append)
    return rig, told


@on_virtual_time
async def test_RTR7_the_ladder_goes_throttle_then_shed_then_reconfigure_then_calm() -> None:
    rig, told = pressed()

    async def insist() -> None:
        for _ in range(10):
            await rig.router.route(rig.message("planner", "coder", priority=CRITIC))

    async with asyncio.TaskGroup() as senders:
        for _ in range(40):
            senders.create_task(insist())
    assert [change.rung for change in told[:3]] == ["throttle", "shed", "reconfigure"]
    assert told[0].occupancy < 0.6 < told[1].occupancy  # throttling begins before WRED's lowest threshold
    assert {change.receiver for change in told} == {"coder"} and told[0].episode_id == "e"
    while not rig.idle("coder"):
        for lease in list(rig.router._boxes[CODER].leases.values()):
            rig.router.ack(lease)
    assert rig.router.rung(CODER) == "reconfigure"
    await rig.router.route(rig.message("planner", "coder"))
    assert (told[-1].rung, rig.router.rung(CODER)) == ("calm", "calm")


@on_virtual_time
async def test_a_sender_waits_in_proportion_and_never_longer_than_the_longest() -> None:
    rig, _ = pressed()
    waits = []
    for _ in range(100):
        started = rig.clock.monotonic()
        await rig.router.route(rig.message("planner", "coder", priority=FINAL))
        waits.append(rig.clock.monotonic() - started)
    assert waits[:51] == [0.0] * 51
    assert waits[51:] == pytest.approx([0.1 * (n / 100 - 0.5) / 0.5 for n in range(51, 100)])
    started = rig.clock.monotonic()
    rig.router._boxes[CODER].lane.restore(rig.take("coder").message)
    assert rig.clock.monotonic() == started and rig.router.stats.throttled == 49


@on_virtual_time
async def test_a_cancelled_wait_has_sent_nothing() -> None:
    rig, _ = pressed()
    for _ in range(60):
        rig.send("planner", "coder", priority=FINAL)
    before = rig.router.stats.admitted
    sending = asyncio.ensure_future(rig.router.route(rig.message("planner", "coder")))
    await asyncio.sleep(0.001)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert rig.router.audit().admitted == before


@on_virtual_time
async def test_nobody_waits_for_another_receivers_lane() -> None:
    rig, _ = pressed()
    for _ in range(60):
        rig.send("planner", "coder", priority=FINAL)
    started = rig.clock.monotonic()
    assert await rig.router.route(rig.message("planner", "runner"))
    assert rig.clock.monotonic() == started


@on_virtual_time
async def test_sustained_refusing_is_told_again_and_a_short_burst_is_not() -> None:
    rig, told = pressed(capacity=1, sheds=3)
    rig.send("planner", "coder", priority=FINAL)
    for _ in range(2):
        rig.send("planner", "coder")
    await asyncio.sleep(1.1)
    for _ in range(2):
        rig.send("planner", "coder")
    assert [change.rung for change in told] == ["shed"]
    rig.send("planner", "coder")
    await asyncio.sleep(1.1)
    for _ in range(3):
        rig.send("planner", "coder")
    assert [change.rung for change in told] == ["shed", "reconfigure", "reconfigure"]


@on_virtual_time
async def test_by_default_nobody_waits_and_nobody_is_told() -> None:
    rig = Rig("flat", capacity=2)
    for _ in range(5):
        await rig.router.route(rig.message("planner", "coder"))
    assert rig.clock.monotonic() == 0.0
    assert rig.router.stats.throttled == 0 and rig.router.rung(CODER) == "calm"


@on_virtual_time
async def test_a_full_byte_cap_presses_too() -> None:
    told: list[PressureChanged] = []
    rig = Rig("flat", lane_bytes=1000, throttle=Throttle(), on_pressure=told.append)
    rig.send("planner", "coder", text(900))
    await rig.router.route(rig.message("planner", "coder", text(90)))
    assert [(change.rung, change.occupancy) for change in told] == [("throttle", 0.9)]


@pytest.mark.parametrize("options", [{"above": 1.0}, {"longest_s": -1}, {"sheds": 0}, {"within_s": 0}])
def test_an_impossible_throttle_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Throttle(**options)


# --- strict order of pairs -----------------------------------------------------------------------


@on_virtual_time
async def test_X3_by_default_classes_overtake_and_so_does_what_follows_a_backoff() -> None:
    rig = Rig("flat", lanes=DrrWred())
    for priority in (CRITIC, FINAL):
        rig.send("planner", "coder", priority=priority)
    assert [rig.pass_on("coder"), rig.pass_on("coder")] == ["m2", "m1"]


@on_virtual_time
async def test_X3_strictly_nothing_overtakes_between_two_agents() -> None:
    checker = HistoryChecker(team(), strict_pairs=True)
    rig = Rig("flat", lanes=DrrWred(), strict_pair_fifo=True, on_event=checker)
    for sender, priority in (
        ("planner", CRITIC),
        ("planner", FINAL),
        ("runner", DRAFT),
        ("planner", DRAFT),
        ("runner", FINAL),
    ):
        rig.send(sender, "coder", priority=priority)
    first = rig.take("coder")
    assert first.message.msg_id == "m1"  # the lane chose planner's final; planner's oldest goes
    rig.router.nack(first, "again")
    assert [rig.pass_on("coder"), rig.pass_on("coder")] == ["m3", "m5"] and rig.idle("coder")
    await asyncio.sleep(0.2)
    assert [rig.pass_on("coder") for _ in range(3)] == ["m1", "m2", "m4"]
    checker.finish()
    assert not checker.violations


@on_virtual_time
async def test_strictly_a_second_consumer_waits_until_the_pair_is_free_and_is_woken_then() -> None:
    rig = Rig("flat", strict_pair_fifo=True)
    rig.send("planner", "coder")
    rig.send("planner", "coder")
    first = rig.take("coder")
    waiting = asyncio.ensure_future(rig.router.lease(CODER))
    await asyncio.sleep(1)
    assert not waiting.done() and rig.router.waiting(CODER) == 1
    rig.router.ack(first)
    second = await waiting
    assert second is not None and second.message.msg_id == "m2"


@on_virtual_time
async def test_strictly_the_order_survives_a_switch() -> None:
    rig = Rig("flat", lanes=DrrWred(), strict_pair_fifo=True, engine={"on_busy": "migrate"})
    for priority in (CRITIC, FINAL, DRAFT):
        rig.send("planner", "coder", priority=priority)
    held = rig.take("coder")
    assert rig.idle("coder")
    assert (await rig.engine.switch_to("star")).ok
    assert rig.idle("coder")
    rig.router.ack(held)
    assert [rig.pass_on("coder"), rig.pass_on("coder")] == ["m2", "m3"]


@on_virtual_time
async def test_strictly_what_waits_beside_the_lane_counts_against_its_capacity() -> None:
    rig = Rig("flat", strict_pair_fifo=True, capacity=2)
    for _ in range(3):
        rig.send("planner", "coder")
    rig.take("coder")
    assert rig.idle("coder")
    assert [bool(rig.send("planner", "coder")) for _ in range(2)] == [True, False]


# --- the retry budget ----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"ratio": 1.5}, {"floor_per_s": 0}, {"reserve": 0}])
def test_an_impossible_retry_budget_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        RetryBudget(**options)


@on_virtual_time
async def test_a_retry_without_budget_waits_and_keeps_its_place() -> None:
    rig = Rig("flat", retry_budget=RetryBudget(ratio=0.1, floor_per_s=1.0, reserve=1.0))
    rig.send("planner", "coder")
    rig.router.nack(rig.take("coder"), "1")
    again = await rig.router.lease(CODER)
    assert again is not None and rig.clock.monotonic() < 0.2  # the reserve pays
    rig.router.nack(again, "2")
    rig.send("planner", "coder")
    assert rig.pass_on("coder") == "m2"
    third = await rig.router.lease(CODER)
    assert third is not None and third.message.attempt == 2
    assert 0.9 < rig.clock.monotonic() < 1.2  # the floor pays
    assert rig.router.audit().postponed > 0


@on_virtual_time
async def test_a_switch_does_not_wait_for_the_retry_budget() -> None:
    rig = Rig("flat", retry_budget=RetryBudget(ratio=0.0, floor_per_s=0.001, reserve=1.0))
    for _ in range(3):
        rig.send("planner", "coder")
    for lease in [rig.take("coder") for _ in range(3)]:
        rig.router.nack(lease, "no")

    async def consume() -> None:
        while (lease := await rig.router.lease(CODER)) is not None:
            rig.router.ack(lease)

    consumer = asyncio.ensure_future(consume())
    assert (await rig.engine.switch_to("star")).ok
    assert rig.router.audit().acked == 3
    rig.router.close_episode()
    await consumer
