"""The same seed gives the same episode: twice in a process, in another process, with another hash seed, under load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stage import Stage, plain

HERE = Path(__file__).parent

ARMS: list[dict[str, Any]] = [
    {"controller": "static:chain", "team_size": 7},
    {"controller": "random_switch:1.0"},
    {"controller": "bandit_v1", "controller_options": {"policy": "none"}},
    {"team": "manager", "controller": "random_switch:0.5"},
    {"team": "single"},
]

SCRIPT = f"""
import json, sys
sys.path.insert(0, {str(HERE)!r})
from stage import Stage, plain
stage = Stage()
print(json.dumps([plain(stage.play("clamp", 5, **arm)) for arm in json.loads(sys.argv[1])]))
stage.close()
"""


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: "-".join(map(str, arm.values())))
def test_twice_in_one_process(stage: Stage, arm: dict[str, Any]) -> None:
    first, again = plain(stage.play("clamp", 5, **arm)), plain(stage.play("clamp", 5, **arm))
    assert first == again


def test_another_seed_may_give_another_episode(stage: Stage) -> None:
    runs = [plain(stage.play("clamp", seed, controller="random_switch:0.5")) for seed in range(4)]
    assert len({json.dumps(r["switches"]) for r in runs}) > 1


def test_randomness_depends_on_task_and_seed_and_not_on_the_arms_name(stage: Stage) -> None:
    one = plain(stage.play("clamp", 1, name="one", controller="random_switch:1.0"))
    two = plain(stage.play("clamp", 1, name="two", controller="random_switch:1.0"))
    assert one["patch"] == two["patch"] and one["trace"] == two["trace"]
    assert {**one["record"], "arm": ""} == {**two["record"], "arm": ""}


def test_in_other_processes_with_other_hash_seeds(stage: Stage) -> None:
    here = json.loads(json.dumps([plain(stage.play("clamp", 5, **arm)) for arm in ARMS]))
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", SCRIPT, json.dumps(ARMS)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "4242")
    ]
    for process in processes:
        out, _ = process.communicate(timeout=100)
        assert process.returncode == 0
        assert json.loads(out) == here


def test_real_time_reaches_an_end_as_well(stage: Stage) -> None:
    quick = {"backend_options": {}, "controller": "static:flat", "team": "single", "budget": 300}
    result = stage.play("clamp", 0, {"real_time": True}, **quick)
    assert result.record["status"] == "finished" and result.record["tokens"] <= 300
