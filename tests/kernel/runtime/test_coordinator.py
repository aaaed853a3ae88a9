"""Dwell and cooldown in steps, one switch in flight, the latest wish deferred, commits announced."""

from __future__ import annotations

import asyncio

from rig import Rig, on_virtual_time

from apex_framework.events import TopologyChanged
from apex_framework.runtime import Coordinator, Deferred, SwitchResult


def coordinator(rig: Rig, **settings: int) -> tuple[Coordinator, list[TopologyChanged]]:
    heard: list[TopologyChanged] = []
    return Coordinator(rig.engine, on_change=heard.append, episode_id="e", **settings), heard


@on_virtual_time
async def test_a_topology_stays_for_its_dwell() -> None:
    it, heard = coordinator(Rig("star"))
    assert await it.request("chain") == Deferred("chain", "dwell")
    it.step()
    assert await it.apply_deferred() is None
    it.step()
    assert it.can_switch and it.steps_since_switch == 2
    result = await it.apply_deferred()
    assert isinstance(result, SwitchResult) and result.ok
    assert heard == [TopologyChanged("e", "star", "chain", 1)]
    assert it.topology_changed.is_set() and it.pending is None and it.steps_since_switch == 0


@on_virtual_time
async def test_after_a_switch_cooldown_passes_before_the_next() -> None:
    it, _ = coordinator(Rig("star"), dwell=0, cooldown=2)
    assert isinstance(await it.request("chain"), SwitchResult)
    for _step in range(2):
        assert await it.request("flat") == Deferred("flat", "cooldown")
        it.step()
    assert isinstance(await it.request("flat"), SwitchResult)


@on_virtual_time
async def test_the_latest_wish_wins_and_the_active_topology_takes_it_back() -> None:
    rig = Rig("star")
    it, _ = coordinator(rig)
    await it.request("chain")
    await it.request("flat")
    assert it.pending == "flat"
    it.step()
    it.step()
    await it.apply_deferred()
    assert rig.engine.active()[0] == "flat"
    await it.request("star")
    assert await it.request("flat") == Deferred("flat", "active")
    assert it.pending is None


@on_virtual_time
async def test_an_aborted_attempt_is_not_announced_and_starts_the_cooldown() -> None:
    rig = Rig("flat")
    it, heard = coordinator(rig, dwell=0, cooldown=1)
    rig.send("planner", "coder")
    result = await it.request("star")
    assert isinstance(result, SwitchResult) and not result.ok
    assert heard == [] and not it.topology_changed.is_set()
    assert await it.request("star") == Deferred("star", "cooldown")


@on_virtual_time
async def test_one_switch_in_flight_and_wishes_meanwhile_are_kept() -> None:
    rig = Rig("flat")
    it, _ = coordinator(rig, dwell=0, cooldown=0)
    rig.send("planner", "coder")
    first = asyncio.ensure_future(it.request("star"))
    await asyncio.sleep(0)
    assert it.switch_lock.locked() and not it.can_switch
    assert await it.request("chain") == Deferred("chain", "in_flight")
    rig.pass_on("coder")
    await first
    result = await it.apply_deferred()
    assert isinstance(result, SwitchResult) and result.target == "chain"
