"""Where time went: parts add up to the whole, exactly and repeatably in virtual time; sampling changes nothing else."""

from __future__ import annotations

import asyncio
import random
from math import isclose
from typing import Any

import pytest
from rig import Rig
from stage import Stage

from apex_framework.interfaces import AgentID
from apex_framework.telemetry.attribution import Attribution, decision_rows, switch_rows
from apex_framework.timeloop import run


def whole(row: dict[str, Any]) -> bool:
    return isclose(sum(row["parts_ms"].values()), row["total_ms"], rel_tol=1e-9, abs_tol=1e-6)


def traffic(seed: int, every: int = 1, listener: type[Attribution] = Attribution) -> list[dict[str, Any]]:
    """Random messages, handlers that take time and refuse, and switches that hold messages at the gate."""
    attribution = listener(every)

    async def scenario() -> None:
        rng = random.Random(seed)
        rig = Rig(on_event=attribution, engine={"deadline_ms": 30.0, "on_busy": rng.choice(["drain", "migrate"])})

        async def handle(agent: str) -> None:
            while (lease := await rig.router.lease(AgentID(agent))) is not None:
                await asyncio.sleep(rng.choice([0.0, 0.01, 0.2]))
                if rng.random() < 0.2:
                    rig.router.nack(lease, "simulated")
                else:
                    rig.router.ack(lease)

        async with asyncio.TaskGroup() as group:
            handlers = [group.create_task(handle(agent)) for agent in rig.roster.ids]
            for _ in range(40):
                rig.send(rng.choice(rig.roster.ids), rng.choice([*rig.roster.ids, "BROADCAST"]), {"n": 1})
                await asyncio.sleep(rng.choice([0.0, 0.003, 0.02]))
                if rng.random() < 0.2:
                    switching = group.create_task(rig.engine.switch_to(rng.choice(["star", "chain", "flat"])))
                    rig.send("planner", "coder", {"while": "switching"})
                    await asyncio.sleep(0)
                    rig.send("planner", "critic", {"while": "switching"})
                    await switching
            await asyncio.sleep(rng.choice([0.0, 30.0]))
            rig.router.close_episode()
            await asyncio.wait(handlers)
        stats = rig.router.audit()
        if every == 1:
            ends = sum(row["end"] == "acked" for row in attribution.rows)
            assert ends == stats.acked, "every hop that was acknowledged has a line"
            deaths = sum(row["end"].startswith("dead") for row in attribution.rows)
            assert deaths == sum(stats.dead.values())

    run(scenario())
    return attribution.rows


@pytest.mark.parametrize("seed", range(25))
def test_parts_of_a_message_add_up_to_its_life(seed: int) -> None:
    rows = traffic(seed)
    assert rows and all(whole(row) for row in rows)
    assert all(part >= 0 for row in rows for part in row["parts_ms"].values())


def test_every_part_is_seen() -> None:
    seen = {part for seed in range(25) for row in traffic(seed) for part, ms in row["parts_ms"].items() if ms > 0}
    assert seen == {"gate", "lane", "backoff", "hands"}


def test_a_part_that_is_lost_is_noticed() -> None:
    """The planted bug: time at the gate that is forgotten when the gate opens."""

    class Forgetful(Attribution):
        def _take(self, msg_id: str, what: str, hop: int, receiver: str, ts: float, reason: str) -> None:
            super()._take(msg_id, what, hop, receiver, ts, reason)
            if what == "released" and self._released is not None:
                self._released[1].parts.clear()

    assert not all(whole(row) for seed in range(25) for row in traffic(seed, listener=Forgetful))


def test_the_same_seed_gives_the_same_lines() -> None:
    assert traffic(3) == traffic(3)
    assert traffic(3) != traffic(4)


def test_a_sample_is_a_part_of_the_whole() -> None:
    everything, some = traffic(5), traffic(5, every=4)
    assert 0 < len(some) < len(everything)
    assert all(row in everything for row in some)
    messages = {row["msg_id"] for row in some}
    assert [row for row in everything if row["msg_id"] in messages] == some


def test_a_trace_says_the_same_as_the_router_did(stage: Stage) -> None:
    result = stage.play("clamp", 2, controller="random_switch:1.0")
    hops = Attribution()
    hops.read(result.trace)
    acked = sum(row["what"] == "acked" for row in result.trace)
    assert sum(row["end"] == "acked" for row in hops.rows) == acked > 0
    assert all(whole(row) for row in hops.rows)


def test_an_episode_repeats_its_lines_exactly_but_for_wall_time(stage: Stage) -> None:
    first, again = (stage.play("clamp", 2, controller="random_switch:1.0").latency for _ in range(2))
    assert {row["kind"] for row in first} == {"message", "decision", "switch"}
    assert all(whole(dict(row)) for row in first)
    virtual = [[row for row in rows if row["kind"] != "decision"] for rows in (first, again)]
    assert virtual[0] == virtual[1]


def test_what_is_measured_around_the_phases_of_a_switch_is_told_as_other() -> None:
    (row,) = switch_rows([{"step": 3, "ok": True, "phase_ms": {"prepare": 1.0, "quiesce": 2.0}, "whole_ms": 3.5}])
    assert row["parts_ms"] == {"prepare": 1.0, "quiesce": 2.0, "other": 0.5}
    (row,) = decision_rows([{"step": 1, "observe_ms": 0.1, "learn_ms": 0.2, "latency_ms": 0.3}])
    assert row["total_ms"] == pytest.approx(0.6)


def test_less_than_every_message_is_refused() -> None:
    with pytest.raises(ValueError, match="is none"):
        Attribution(0)
