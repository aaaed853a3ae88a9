"""Guard 2: when messages are free, arms do not differ. Guard 3: the name of a topology means nothing."""

from __future__ import annotations

from typing import Any

import pytest
from ears import RENAMED
from stage import Stage, plain

from apex_framework.interfaces import EpisodeResult

CONTROLLERS = ("static:star", "static:chain", "static:flat", "random_switch:1.0", "random_switch:0.5")


def work_of(result: EpisodeResult) -> tuple[Any, ...]:
    """What was done, without how messages travelled."""
    what = ("agent_id", "purpose", "status", "tokens_in", "tokens_out", "estimate")
    calls = [tuple(call.get(name) for name in what) for call in result.calls]
    return result.patch, result.record["success"], result.record["tokens"], result.record["steps"], calls


@pytest.mark.parametrize("team", [("swe", 5), ("swe", 7), ("manager", None)], ids=str)
@pytest.mark.parametrize("task", ["clamp", "count"])
def test_guard_2_with_free_broadcast_arms_do_the_same_work(
    ears: Stage, task: str, team: tuple[str, int | None]
) -> None:
    often = {"dwell": 1, "cooldown": 1}
    results = [
        ears.play(task, 1, controller=c, free_messages=True, team=team[0], team_size=team[1], **often)
        for c in CONTROLLERS
    ]
    assert [work_of(r) for r in results] == [work_of(results[0])] * len(results)
    assert results[0].record["switches"] == 0 and results[3].record["switches"] >= 3
    assert {row["target"] for row in results[3].switches} == {"star", "chain", "flat"}


@pytest.mark.slow
def test_guard_2_holds_on_real_code(mini: Stage) -> None:
    for task in mini.shop.suite.tasks("dev")[:3]:
        results = [mini.play(task.id, controller=c, free_messages=True) for c in CONTROLLERS[:4]]
        assert [work_of(r) for r in results] == [work_of(results[0])] * len(results)
        assert results[3].record["switches"] >= 3


def test_guard_2_messages_cost_something_when_they_are_not_free(ears: Stage) -> None:
    results = [ears.play("clamp", controller=c) for c in CONTROLLERS[:3]]
    assert all(r.record["message_tokens"] > 0 for r in results)
    assert len({r.record["tokens"] for r in results}) > 1
    assert ears.play("clamp", free_messages=True).record["message_tokens"] == 0


def renamed(value: Any) -> Any:
    """A result with every topology under its other name."""
    if isinstance(value, dict):
        return {renamed(k): renamed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [renamed(v) for v in value]
    return RENAMED.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("static:star", "static:violet"),
        ("static:chain", "static:mauve"),
        ("static:flat", "static:apricot"),
        ("random_switch:0.7", "random_switch:0.7"),
        ("schedule:star,flat,chain", "schedule:violet,apricot,mauve"),
        ("bandit_v1", "bandit_v1"),
    ],
)
def test_guard_3_other_names_permute_results_exactly(ears: Stage, ours: str, theirs: str) -> None:
    options = {"policy": "none"} if ours == "bandit_v1" else {}
    explore = {"explore": True, "transitions": True}
    one = ears.play("clamp", 1, explore, name="a", controller=ours, controller_options=options)
    names = tuple(RENAMED.values())
    two = ears.play("clamp", 1, explore, name="a", controller=theirs, controller_options=options, topologies=names)
    mine, other = renamed(plain(one)), plain(two)
    mine["record"]["topologies"] = dict(sorted(mine["record"]["topologies"].items()))
    assert mine == other
