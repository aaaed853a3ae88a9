"""No episode spends more than its budget, whatever the budget, the team and the topology (I3)."""

from __future__ import annotations

import pytest
from stage import Stage

TEAMS = [("swe", 5), ("swe", 7), ("single", None), ("manager", None)]


@pytest.mark.parametrize("budget", [300, 1_000, 3_000, 10_000])
@pytest.mark.parametrize("controller", ["static:star", "static:chain", "random_switch:1.0"])
def test_I3_tokens_stay_within_the_budget(stage: Stage, controller: str, budget: int) -> None:
    for team, size in TEAMS:
        for task in ("clamp", "roman") if budget < 1_000 else ("clamp",):
            result = stage.play(task, controller=controller, team=team, team_size=size, budget=budget)
            record = result.record
            assert record["tokens"] <= budget and record["overspent"] == record["violations"] == 0
            assert record["status"] in ("finished", "quiet") and record["faults"] == []
            for call in result.calls:
                if call["status"] != "denied":
                    assert call["tokens_in"] + call["tokens_out"] <= call["reserved"]


def test_I3_holds_while_everybody_works_until_the_money_is_gone(stage: Stage) -> None:
    for team, size in TEAMS:
        record = stage.play("roman", controller="random_switch:1.0", team=team, team_size=size, budget=2_500).record
        assert 1_000 < record["tokens"] <= 2_500


@pytest.mark.parametrize("team", ["swe", "single", "manager"])
def test_denials_are_counted_and_the_episode_goes_on_to_its_end(stage: Stage, team: str) -> None:
    result = stage.play("roman", team=team, budget=300)
    record = result.record
    denied = [row for row in result.calls if row["status"] == "denied"]
    assert record["denied"] == len(denied) > 0
    assert record["denied_tokens"] == sum(row["estimate"] for row in denied)
    assert all(row["reasons"] for row in denied)
    assert record["status"] == "finished" and record["faults"] == []


def test_a_role_scope_bounds_each_role_as_well(stage: Stage) -> None:
    free = stage.play("clamp", controller="static:star")
    bound = stage.play("clamp", controller="static:star", scopes=("episode", "role"))
    assert free.record["success"] and bound.record["tokens"] <= 10_000
    assert all(set(row["reasons"]) <= {"episode", "role"} for row in bound.calls if row["status"] == "denied")
