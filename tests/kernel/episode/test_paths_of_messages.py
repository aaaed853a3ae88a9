"""Traces show the paths that the topology of their epoch allows, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from stage import Stage
from wayfarer import epochs, hops, strayed

from apex_framework.interfaces import EpisodeResult, Roster

STATICS = ("static:star", "static:chain", "static:flat")
SWITCHING = ("random_switch:1.0", "random_switch:0.3", "schedule:star,flat,chain", "schedule:chain,star,flat")


def roster_of(stage: Stage, team: str, size: int | None) -> Roster:
    roster: Roster = stage.shop.catalog.make("team", team).roster(size)
    return roster


@pytest.mark.parametrize("size", [3, 5, 10])
@pytest.mark.parametrize("controller", STATICS)
def test_a_static_topology_is_kept_to(stage: Stage, controller: str, size: int) -> None:
    result = stage.play("clamp", controller=controller, team_size=size)
    assert strayed(result, roster_of(stage, "swe", size)) == []
    assert epochs(result) == {0: controller.removeprefix("static:")} and result.switches == ()
    assert len(hops(result)) > 3


@pytest.mark.parametrize("size", [5, 7])
@pytest.mark.parametrize("on_busy", ["migrate", "drain"])
@pytest.mark.parametrize("controller", SWITCHING)
def test_every_hop_is_an_edge_of_its_epochs_topology(stage: Stage, controller: str, on_busy: str, size: int) -> None:
    result = stage.play("clamp", controller=controller, team_size=size, on_busy=on_busy, dwell=0, cooldown=0)
    assert strayed(result, roster_of(stage, "swe", size)) == []


def test_messages_that_wait_at_a_switch_move_with_it_and_keep_to_the_new_topology(stage: Stage) -> None:
    roster = roster_of(stage, "swe", 10)
    moved = 0
    for seed in range(2):
        result = stage.play(
            "clamp", seed, controller="random_switch:1.0", team_size=10, on_busy="migrate", dwell=0, cooldown=0
        )
        assert strayed(result, roster) == []
        moved += sum(row["migrated"] for row in result.switches)
        assert sum(row["migrated"] for row in result.switches) <= sum(r["what"] == "migrated" for r in result.trace)
    assert moved > 0


@pytest.mark.parametrize("task", ["clamp", "count"])
def test_the_manager_team_keeps_to_the_topology_too(stage: Stage, task: str) -> None:
    result = stage.play(task, controller="random_switch:1.0", team="manager")
    assert strayed(result, roster_of(stage, "manager", None)) == []


def test_a_star_has_no_hop_between_spokes(stage: Stage) -> None:
    result = stage.play("clamp", controller="static:star")
    assert all("planner" in pair for pair in hops(result))


def test_a_chain_goes_to_the_next_only(stage: Stage) -> None:
    ids = [str(i) for i in roster_of(stage, "swe", 5).ids]
    following = dict(zip(ids, ids[1:] + ids[:1], strict=True))
    assert all(
        following[holder] == receiver for holder, receiver in hops(stage.play("clamp", controller="static:chain"))
    )


def test_flat_goes_straight_to_its_audience(stage: Stage) -> None:
    result = stage.play("clamp", controller="static:flat")
    assert all(row["holder"] == row["origin"] for row in result.trace if row["what"] == "routed")


def _tampered(result: EpisodeResult, what: str, **values: Any) -> EpisodeResult:
    index = next(i for i, r in enumerate(result.trace) if r["what"] == what and r["holder"] != "user")
    trace = [*result.trace]
    trace[index] = {**trace[index], **values}
    return replace(result, trace=tuple(trace))


def test_the_checker_itself_sees_a_forbidden_hop(stage: Stage) -> None:
    result, roster = stage.play("clamp", controller="static:star"), roster_of(stage, "swe", 5)
    assert strayed(_tampered(result, "routed", holder="coder", receiver="critic"), roster)
    assert strayed(_tampered(result, "routed", holder="stranger"), roster)
    third = {**result.trace[0], "msg_id": "m99", "origin": "coder", "holder": "coder", "what": "routed"}
    crowd = tuple({**third, "receiver": r} for r in ("planner", "runner", "critic"))
    flat = stage.play("clamp", controller="static:flat")
    assert strayed(flat, roster) == [] and strayed(replace(flat, trace=flat.trace + crowd), roster)


def test_switching_controllers_really_switch(stage: Stage) -> None:
    result = stage.play("roman", controller="random_switch:1.0", budget=4_000)
    committed = [row for row in result.switches if row["ok"]]
    assert result.record["switches"] == len(committed) >= 3
    assert len(set(epochs(result).values())) == 3
    assert set(result.record["topologies"]) == set(epochs(result).values())
    assert {row["epoch"] for row in result.trace if row["what"] == "routed"} <= set(epochs(result))


def test_dwell_and_cooldown_keep_switches_apart(stage: Stage) -> None:
    result = stage.play("roman", controller="random_switch:1.0", dwell=3, cooldown=3, budget=4_000)
    steps = [row["step"] for row in result.switches]
    assert len(steps) >= 2 and all(b - a >= 3 for a, b in zip([0, *steps], steps, strict=False))
