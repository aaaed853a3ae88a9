"""Dwell and cooldown in steps, one switch in flight, the latest wish deferred, commits announced."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from rig import TOPOLOGIES, Rig, on_virtual_time

from apex_framework.events import TopologyChanged
from apex_framework.interfaces import AgentID
from apex_framework.runtime import Coordinator, Deferred, HealthPin, SwitchResult, TopologyHealthProbe


def coordinator(rig: Rig, **settings: Any) -> tuple[Coordinator, list[TopologyChanged]]:
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


@on_virtual_time
async def test_f13_of_the_wishes_during_a_switch_the_latest_is_applied_after_the_cooldown() -> None:
    rig = Rig("flat", engine={"deadline_ms": 1000})
    it, heard = coordinator(rig, dwell=0, cooldown=2)
    rig.send("planner", "coder")
    first = asyncio.ensure_future(it.request("star"))
    await asyncio.sleep(0)
    for target in ("chain", "star", "flat", "chain"):
        assert await it.request(target) == Deferred(target, "in_flight")
    rig.pass_on("coder")
    await first
    for _ in range(2):
        assert await it.apply_deferred() is None and it.pending == "chain"
        it.step()
    result = await it.apply_deferred()
    assert isinstance(result, SwitchResult) and result.ok
    assert [event.target for event in heard] == ["star", "chain"] and it.pending is None


@on_virtual_time
async def test_an_attempt_that_is_cancelled_starts_the_cooldown_too() -> None:
    rig = Rig("flat", engine={"deadline_ms": 1000})
    it, heard = coordinator(rig, dwell=0, cooldown=1)
    rig.send("planner", "coder")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await it.request("star")
    assert not it.switch_lock.locked() and heard == []
    assert await it.request("star") == Deferred("star", "cooldown")


class Agent:
    """Answers a ping when it is well."""

    def __init__(self) -> None:
        self.well = True
        self.asked = 0

    async def ping(self) -> None:
        self.asked += 1
        await asyncio.sleep(0.004)
        if not self.well:
            raise OSError("sick")


def probed(rig: Rig, **settings: Any) -> tuple[Coordinator, Agent]:
    agent = Agent()
    probe = TopologyHealthProbe(rig.router, TOPOLOGIES, clock=rig.clock, agents={AgentID("coder"): agent})
    return Coordinator(rig.engine, probe=probe, **settings), agent


@on_virtual_time
async def test_a_target_is_probed_first_and_the_time_is_part_of_the_switch() -> None:
    rig = Rig("star")
    it, _ = probed(rig, dwell=0)
    result = await it.request("chain")
    assert isinstance(result, SwitchResult) and result.ok
    assert list(result.stats.phase_ms) == ["probe", "prepare", "quiesce", "commit"]
    assert result.stats.phase_ms["probe"] == pytest.approx(4.0) == result.stats.total_ms


@on_virtual_time
async def test_what_fails_the_probe_waits_out_a_cooldown_and_is_probed_again() -> None:
    rig = Rig("star")
    it, agent = probed(rig, dwell=0, cooldown=2)
    agent.well = False
    assert await it.request("chain") == Deferred("chain", "probe")
    assert it.pending == "chain" and rig.engine.active() == ("star", 0) and rig.engine.aborted == {}
    assert await it.request("chain") == Deferred("chain", "cooldown")
    it.step()
    it.step()
    agent.well = True
    result = await it.apply_deferred()
    assert isinstance(result, SwitchResult) and result.ok and agent.asked == 2


@on_virtual_time
async def test_a_wish_during_a_probe_that_fails_is_the_later_one() -> None:
    rig = Rig("star")
    it, agent = probed(rig, dwell=0, cooldown=0)
    agent.well = False
    asking = asyncio.ensure_future(it.request("chain"))
    await asyncio.sleep(0.001)
    assert await it.request("flat") == Deferred("flat", "in_flight")
    assert await asking == Deferred("chain", "probe") and it.pending == "flat"


@on_virtual_time
async def test_a_pin_is_not_probed_and_an_unknown_target_is_refused_by_the_engine() -> None:
    rig = Rig("star")
    it, agent = probed(rig, dwell=0, cooldown=0)
    agent.well = False
    result = await it.request("mesh")
    assert isinstance(result, SwitchResult) and result.reason == "unknown_topology"
    health = HealthPin(TOPOLOGIES, clock=rig.clock, window=1)
    held = Coordinator(rig.engine, probe=it._probe, pin=health)
    health.decided(100.0)
    pinned = await held.hold()
    assert pinned is not None and pinned.ok and agent.asked == 0


@on_virtual_time
async def test_pressure_asks_for_the_relief_topology_like_anybody_else() -> None:
    rig = Rig("star")
    it, _ = coordinator(rig, dwell=1, cooldown=1, relief="chain")
    assert [await it.relieve(rung) for rung in ("calm", "throttle", "shed")] == [None] * 3
    assert await it.relieve("reconfigure") == Deferred("chain", "dwell")
    it.step()
    result = await it.apply_deferred()
    assert isinstance(result, SwitchResult) and result.target == "chain"
    assert await it.relieve("reconfigure") == Deferred("chain", "active")
    assert await coordinator(rig)[0].relieve("reconfigure") is None
    with pytest.raises(ValueError, match="mesh"):
        coordinator(rig, relief="mesh")
