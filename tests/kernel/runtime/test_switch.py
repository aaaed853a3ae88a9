"""A switch is complete or has not happened; nothing is lost, and nothing of the new epoch overtakes the old."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest
from rig import TOPOLOGIES, Rig, on_virtual_time, team

from apex_framework.interfaces import AgentID, Member, Roster, RouteResult, Routes
from apex_framework.runtime import RouteTable, SwitchEngine, SwitchResult
from apex_framework.runtime.gate import EpochGate
from apex_framework.timeloop import run
from apex_topologies.chain import Chain

CODER, PLANNER, RUNNER, CRITIC = (AgentID(i) for i in ("coder", "planner", "runner", "critic"))


@on_virtual_time
async def test_a_quiet_team_switches_at_once() -> None:
    rig = Rig("star")
    assert rig.engine.active() == ("star", 0)
    result = await rig.engine.switch_to("chain")
    assert (result.ok, result.epoch, result.origin, result.target) == (True, 1, "star", "chain")
    assert set(result.stats.phase_ms) == {"prepare", "quiesce", "commit"}
    assert rig.engine.active() == ("chain", 1)
    assert SwitchEngine.execute_switch is SwitchEngine.switch_to


@on_virtual_time
async def test_I2_new_messages_wait_unresolved_and_take_the_new_way() -> None:
    rig = Rig("flat", engine={"deadline_ms": 1000})
    rig.send("planner", "runner")
    switching = asyncio.ensure_future(rig.engine.switch_to("chain"))
    await asyncio.sleep(0)
    assert rig.send("planner", "runner") is RouteResult.ENQUEUED
    assert rig.router.audit().waiting == 2
    old = rig.take("runner")
    assert old.message.topo_epoch == 0 and rig.idle("runner")
    assert (await switching).ok
    assert rig.idle("runner")
    new = rig.take("coder")
    assert (new.message.msg_id, new.message.topo_epoch, new.is_relay) == ("m2", 1, True)
    rig.router.ack(new)
    assert rig.pass_on("runner") == "m2"


@on_virtual_time
async def test_the_deadline_aborts_and_what_waited_returns_in_order_past_capacity() -> None:
    rig = Rig("flat", capacity=2)
    rig.send("planner", "coder")
    switching = asyncio.ensure_future(rig.engine.switch_to("star"))
    await asyncio.sleep(0.01)
    assert all(rig.send("planner", "coder") for _ in range(4))
    result = await switching
    assert (result.ok, result.reason, result.epoch) == (False, "quiesce_deadline", 0)
    assert result.stats.phase_ms["quiesce"] == pytest.approx(50)
    assert [rig.pass_on("coder") for _ in range(5)] == ["m1", "m2", "m3", "m4", "m5"]
    assert rig.router.audit().acked == 5


@on_virtual_time
async def test_the_gate_has_a_bound_and_knows_when_nobody_is_meant() -> None:
    rig = Rig("flat", team("planner coder"), capacity=2)
    rig.send("planner", "coder")
    switching = asyncio.ensure_future(rig.engine.switch_to("star"))
    await asyncio.sleep(0)
    assert rig.send("planner", "planner") is RouteResult.NO_ROUTE
    assert [bool(rig.send("planner", "coder")) for _ in range(5)] == [True] * 4 + [False]
    await switching
    rig.router.audit()


@on_virtual_time
async def test_drain_waits_for_those_behind_a_busy_agent_until_the_deadline() -> None:
    rig = Rig("flat")
    rig.send("planner", "coder")
    rig.take("coder")
    rig.send("planner", "coder")
    assert (await rig.engine.switch_to("star")).reason == "quiesce_deadline"


@on_virtual_time
async def test_migrate_takes_them_along_in_front_of_everything_new() -> None:
    rig = Rig("flat", engine={"on_busy": "migrate", "deadline_ms": 1000})
    rig.send("planner", "coder")
    busy = rig.take("coder")
    rig.send("planner", "coder")
    rig.send("planner", "runner")
    switching = asyncio.ensure_future(rig.engine.switch_to("chain"))
    await asyncio.sleep(0)
    rig.send("planner", "coder")
    assert rig.pass_on("runner") == "m3"
    result = await switching
    assert result.ok and result.stats.migrated == 1
    rig.router.ack(busy)
    lease = rig.take("coder")
    assert (lease.message.msg_id, lease.message.topo_epoch) == ("m2", 1)
    assert rig.pass_on("coder") == "m4"


@on_virtual_time
async def test_a_migrated_message_whose_edge_is_gone_is_routed_anew_from_its_holder() -> None:
    rig = Rig("flat", engine={"on_busy": "migrate"})
    rig.send("planner", "critic")
    busy = rig.take("critic")
    rig.send("planner", "critic")
    assert (await rig.engine.switch_to("chain")).stats.migrated == 1
    assert rig.router.ack(busy) and rig.idle("critic")
    assert [rig.pass_on(a) for a in ("coder", "runner", "critic")] == ["m2"] * 3


@on_virtual_time
async def test_hops_of_one_message_are_routed_anew_together_and_nobody_gets_it_twice() -> None:
    rig = Rig("flat", engine={"on_busy": "migrate"})
    rig.send("planner", "coder")
    rig.send("planner", "runner")
    busy = [rig.take("coder"), rig.take("runner")]
    rig.send("planner", "coder+runner")
    assert (await rig.engine.switch_to("chain")).stats.migrated == 2
    for lease in busy:
        rig.router.ack(lease)
    assert rig.idle("runner")
    lease = rig.take("coder")
    assert not lease.is_relay
    rig.router.ack(lease)
    assert rig.pass_on("runner") == "m3"
    assert rig.idle("coder")
    rig.router.audit()


@on_virtual_time
async def test_what_a_busy_agent_forwards_after_the_commit_takes_the_new_way() -> None:
    rig = Rig("star")
    rig.send("coder", "critic+runner")
    lease = rig.take("planner")
    assert (await rig.engine.switch_to("chain")).ok
    rig.router.ack(lease)
    assert [rig.pass_on(a) for a in ("coder", "runner", "critic")] == ["m1"] * 3
    rig.router.audit()


@on_virtual_time
async def test_what_a_relay_forwards_during_the_switch_waits_at_the_gate() -> None:
    rig = Rig("star", engine={"deadline_ms": 1000})
    rig.send("coder", "critic")
    relay = rig.take("planner")
    rig.send("planner", "runner")
    switching = asyncio.ensure_future(rig.engine.switch_to("flat"))
    await asyncio.sleep(0)
    rig.router.ack(relay)
    assert rig.idle("critic")
    assert rig.pass_on("runner") == "m2"
    assert (await switching).ok
    lease = rig.take("critic")
    assert (lease.message.via, lease.message.topo_epoch) == ("planner", 1)


@on_virtual_time
async def test_backoff_is_due_when_the_gate_shuts() -> None:
    rig = Rig("flat")
    rig.send("planner", "coder")
    rig.router.nack(rig.take("coder"), "no")

    async def consume() -> None:
        lease = await rig.router.lease(CODER)
        assert lease is not None
        rig.router.ack(lease)

    async with asyncio.TaskGroup() as group:
        group.create_task(consume())
        await asyncio.sleep(0)
        result = await rig.engine.switch_to("chain")
    assert result.ok and result.stats.phase_ms["quiesce"] < 1


@on_virtual_time
async def test_a_late_refusal_moves_the_message_into_the_new_epoch() -> None:
    rig = Rig("flat")
    rig.send("planner", "coder")
    lease = rig.take("coder")
    assert (await rig.engine.switch_to("chain")).ok
    rig.router.nack(lease, "failed")
    assert rig.router.audit().migrated == 1
    again = await rig.router.lease(CODER)
    assert again is not None and again.message.topo_epoch == 1


@on_virtual_time
async def test_unknown_and_unservable_topologies_abort() -> None:
    class Picky:
        name = "picky"

        def routes(self, roster: Roster) -> Routes:
            raise ValueError("not this team")

    rig = Rig("star")
    engine = SwitchEngine(rig.router, {**TOPOLOGIES, "picky": Picky()}, clock=rig.clock)
    assert (await engine.switch_to("mesh")).reason == "unknown_topology"
    picky = await engine.switch_to("picky")
    assert (picky.reason, picky.detail) == ("prepare_failed", "ValueError: not this team")
    assert engine.active() == ("star", 0)


@on_virtual_time
async def test_one_switch_at_a_time() -> None:
    rig = Rig("flat")
    rig.send("planner", "coder")
    first = asyncio.ensure_future(rig.engine.switch_to("star"))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="in flight"):
        await rig.engine.switch_to("chain")
    await first


@on_virtual_time
async def test_the_end_of_the_episode_ends_a_switch() -> None:
    rig = Rig("flat", engine={"deadline_ms": 1e6})
    rig.send("planner", "coder")
    switching = asyncio.ensure_future(rig.engine.switch_to("star"))
    await asyncio.sleep(0)
    rig.send("planner", "coder")
    rig.router.close_episode()
    result: SwitchResult = await switching
    assert (result.ok, result.reason) == (False, "episode_over")
    assert rig.router.audit().dead == {"episode_over": 2}
    assert (await rig.engine.switch_to("star")).reason == "episode_over"


@on_virtual_time
async def test_a_change_of_roster_is_a_switch_too() -> None:
    rig = Rig("flat", engine={"on_busy": "migrate"})
    for _ in range(2):
        rig.send("planner", "critic")
    gone = rig.take("critic")
    members = (*(m for m in rig.roster.members if m.id != "critic"), Member(AgentID("tester"), "tester"))
    result: Any = await rig.engine.switch_to("chain", Roster(members, PLANNER))
    assert result.ok and result.stats.dropped_by_reason == {"recipient_gone": 1}
    assert rig.router.nack(gone, "bye")
    assert rig.router.audit().dead == {"recipient_gone": 2}
    assert await rig.router.lease(CRITIC) is None
    assert rig.send("summarizer", "tester") and rig.pass_on("tester") == "m3"
    assert Chain().routes(Roster(members, PLANNER)).edges["tester"] == ("planner",)  # type: ignore[index]  # an id


class Regroups(EpochGate):
    """Checks before every commit that hops of one message from one holder are neighbours in the order of arrival."""

    carried = 0

    def commit(self, table: RouteTable) -> tuple[int, dict[str, int]]:
        waiting = sorted((e for box in self._router._boxes.values() for e in box.pending()), key=lambda e: e.order)
        keys = [(e.msg_id, e.sender, e.holder) for e in waiting]
        assert len([key for key, _ in itertools.groupby(keys)]) == len(set(keys)), keys
        Regroups.carried += len(keys) - len(set(keys))
        return super().commit(table)


def test_what_is_routed_anew_together_waits_side_by_side() -> None:
    async def scenario(seed: int) -> None:
        rng = random.Random(seed)
        rig = Rig("flat", engine={"on_busy": "migrate", "deadline_ms": 5})
        rig.engine._gate = Regroups(rig.router)
        for _ in range(60):
            for _ in range(rng.randint(1, 5)):
                audience = rng.choice(["coder", "critic", "coder+critic", "BROADCAST", "runner+summarizer+coder"])
                rig.send(rng.choice(rig.roster.ids), audience)
            for agent in rig.roster.ids:
                if rng.random() < 0.6 and (lease := rig.router.try_lease(agent)) is not None and rng.random() < 0.8:
                    rng.choice((rig.router.ack, lambda lease: rig.router.nack(lease, "no")))(lease)
            if rng.random() < 0.3:
                await rig.engine.switch_to(rng.choice(sorted(TOPOLOGIES)))
            await asyncio.sleep(0.01)
        rig.router.audit()

    for seed in range(25):
        run(scenario(seed))
    assert Regroups.carried > 100, "messages with several waiting hops were among them"
