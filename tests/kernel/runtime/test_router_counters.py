"""RTR-6: what a monitor polls: counters per class and lanes' occupancy, cheap and exact, with nobody listening."""

from __future__ import annotations

import asyncio

from rig import Rig, on_virtual_time

from apex_framework.interfaces import MessagePriority
from apex_framework.runtime.record import ClassStats

FINAL, DRAFT, CRITIC = MessagePriority


@on_virtual_time
async def test_RTR6_each_class_has_its_own_counters() -> None:
    rig = Rig("flat", capacity=2, on_event=None)
    for priority in (FINAL, DRAFT, DRAFT, CRITIC):
        rig.send("planner", "coder", priority=priority)
    rig.send("planner", "runner", priority=CRITIC)
    rig.pass_on("coder")
    rig.router.nack(rig.take("coder"), "again")
    rig.take("runner")
    assert rig.router.audit().classes == {
        "final": ClassStats(admitted=1, acked=1, dead=0, refused=0, waiting=0, leased=0, backoff=0),
        "draft": ClassStats(admitted=1, acked=0, dead=0, refused=1, waiting=0, leased=0, backoff=1),
        "critic": ClassStats(admitted=1, acked=0, dead=0, refused=1, waiting=0, leased=1, backoff=0),
    }


@on_virtual_time
async def test_RTR6_occupancy_is_told_lane_by_lane() -> None:
    rig = Rig("flat", capacity=4)
    for _ in range(3):
        rig.send("planner", "coder")
    rig.send("planner", "runner")
    assert rig.router.stats.lanes == {"planner": 0.0, "coder": 0.75, "runner": 0.25, "critic": 0.0, "summarizer": 0.0}
    assert rig.router.occupancy() == 0.75


@on_virtual_time
async def test_messages_of_no_known_class_are_counted_apart() -> None:
    rig = Rig("flat")
    assert "other" not in rig.router.stats.classes
    for stranger in ("urgent", None, []):
        rig.send("planner", "coder", priority=stranger)
    rig.pass_on("coder")
    assert rig.router.audit().classes["other"] == ClassStats(3, 1, 0, 0, 2, 0, 0)


@on_virtual_time
async def test_a_class_as_plain_text_is_that_class() -> None:
    rig = Rig("flat")
    rig.send("planner", "coder", priority="critic")
    assert rig.router.stats.classes["critic"].admitted == 1


@on_virtual_time
async def test_what_waits_at_the_gate_is_counted_apart_and_with_what_waits() -> None:
    rig = Rig("flat")
    rig.engine._gate.shut()
    rig.send("planner", "coder", priority=FINAL)
    stats = rig.router.audit()
    assert (stats.held, stats.waiting, stats.classes["final"].waiting) == (1, 1, 1)
    rig.engine._gate.abort()
    assert rig.router.audit().held == 0


@on_virtual_time
async def test_an_event_says_the_class() -> None:
    rig = Rig("flat")
    rig.send("planner", "coder", priority=CRITIC)
    rig.send("planner", "coder", priority=None)
    assert [event.priority for event in rig.events] == ["critic", "None"]


@on_virtual_time
async def test_what_is_open_is_known_without_counting_it() -> None:
    rig = Rig("star")
    rig.send("coder", "critic+runner")
    assert rig.router.open == 1
    rig.router.ack(rig.take("planner"))
    assert rig.router.open == 2
    rig.router.nack(rig.take("critic"), "again")
    assert rig.router.open == 2
    await asyncio.sleep(0.2)
    rig.pass_on("critic")
    rig.pass_on("runner")
    assert rig.router.open == 0
