"""The log of decisions holds everything that a controller could have decided on: asked again, it decides the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import pytest
from stage import Stage

from apex_framework.analysis import logged_observation
from apex_framework.episode import deciding
from apex_framework.episode.arm import Arm
from apex_framework.errors import ArtifactError, NotComparableError
from apex_framework.hookspecs import Add, ApexSpec, hookimpl
from apex_framework.interfaces import (
    STAY,
    Controller,
    Decision,
    EpisodeContext,
    EpisodeResult,
    Observation,
    Transition,
)
from apex_framework.ports import derive_seed

CONTROLLERS = (
    *("static:chain", "schedule:chain,star,flat", "phase_heuristic", "random_switch:0.3"),
    *("per_episode", "bandit_v1", "linucb", "thompson"),
)
SHORT: dict[str, Any] = {"dwell": 1, "cooldown": 1, "budget": 3_000}
LEARN = ("per_episode", "bandit_v1", "linucb", "thompson")


class Attentive:
    """A stranger's controller that decides on all there is; ``seen`` are the very observations."""

    name = "attentive"

    def __init__(self) -> None:
        self.seen: list[Observation] = []

    def begin(self, episode: EpisodeContext) -> None:
        self.seed = episode.seed

    def decide(self, observation: Observation) -> Decision:
        self.seen.append(observation)
        others = [t for t in observation.topologies if t != observation.topology]
        told = repr([getattr(observation, field.name) for field in fields(Observation)])
        draw = derive_seed(self.seed, told)
        if observation.topology and draw % 3:
            return Decision(STAY, propensity=2 / 3)
        return Decision(others[draw // 3 % len(others)], propensity=1 / 3 / len(others))

    def learn(self, transition: Transition) -> None:
        pass


class Stranger(ApexSpec):
    """Registers it; ``made`` are all that were made."""

    def __init__(self) -> None:
        self.made: list[Attentive] = []

    @hookimpl
    def apex_controllers(self, add: Add[Controller]) -> None:
        add("attentive", self._make, summary="decides on everything")

    def _make(self) -> Controller:
        self.made.append(Attentive())
        return self.made[-1]


STRANGER = Stranger()


@pytest.fixture(scope="module")
def wide() -> Any:
    stage = Stage(stranger=STRANGER)
    yield stage
    stage.close()


def replay(stage: Stage, result: EpisodeResult, arm: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Ask the controller again, at every line as it comes out of a file."""
    setting = Arm(**{"name": "x", **arm})
    record, told = result.record, json.loads(json.dumps(rows))
    seed = derive_seed("episode", record["task_id"], record["seed"])
    controller: Controller = stage.shop.catalog.make("controller", setting.controller, **setting.controller_options)
    controller.begin(
        EpisodeContext("again", seed, setting.topologies, setting.budget, setting.dwell, not setting.online)
    )
    for row in told:
        decision = controller.decide(logged_observation(row, setting.to_json()))
        again = (decision.action, decision.propensity, decision.epsilon, dict(decision.scores), list(decision.features))
        logged = tuple(row[key] for key in ("action", "propensity", "epsilon", "scores", "features"))
        assert again == logged, row["step"]


@pytest.mark.parametrize(
    ("name", "online"), [*((name, False) for name in CONTROLLERS), *((name, True) for name in LEARN)]
)
def test_every_controller_decides_the_same_again(wide: Stage, name: str, online: bool) -> None:
    arm = {**SHORT, "controller": name, "online": online}
    result = wide.play("roman", 3, **arm)
    assert len(result.decisions) > 5
    replay(wide, result, arm, result.decisions)


def test_a_strangers_controller_decides_the_same_again(wide: Stage) -> None:
    """Its observations are the live ones, field by field."""
    arm = {**SHORT, "controller": "attentive"}
    result = wide.play("roman", 3, **arm)
    live = STRANGER.made[-1].seen
    assert len(live) == len(result.decisions) > 5 and result.record["switches"]
    rows = json.loads(json.dumps(result.decisions))
    assert [logged_observation(row, Arm("x", **arm).to_json()) for row in rows] == live
    replay(wide, result, arm, result.decisions)


def test_a_planted_omission_is_caught(wide: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = {"controller": "attentive"}
    rows = wide.play("clamp", 1, **arm).decisions
    monkeypatch.setattr(deciding, "LOGGED", tuple(name for name in deciding.LOGGED if name != "recent_roles"))
    result = wide.play("clamp", 1, **arm)
    with pytest.raises(NotComparableError, match="decides on 'recent_roles', which this log does not hold"):
        replay(wide, result, arm, result.decisions)
    for lost in {field.name for field in fields(Observation)} - deciding.ELSEWHERE:
        with pytest.raises(NotComparableError, match=f"decides on '{lost}', which this log does not hold"):
            replay(wide, result, arm, [{**row, "observation": without(row["observation"], lost)} for row in rows])


def without(observation: Mapping[str, Any], lost: str) -> dict[str, Any]:
    return {name: value for name, value in observation.items() if name != lost}


def test_what_is_garbled_is_one_line(wide: Stage) -> None:
    result = wide.play("clamp", 1, controller="static:star")
    setting = Arm("x").to_json()
    row = json.loads(json.dumps(result.decisions[-1]))
    wrong: dict[str, Any] = {
        "epoch": 1.5, "can_switch": 1, "recent_roles": "coder", "headroom": {"episode": "all"}, "pass_rate": "half",
        "occupancy": float("nan"), "phase": None, "extra": [], "tokens_used": True,
    }  # fmt: skip
    for name, value in wrong.items():
        with pytest.raises(ArtifactError, match=f"observes {name} "):
            logged_observation({**row, "observation": {**row["observation"], name: value}}, setting)
    with pytest.raises(ArtifactError, match="no table"):
        logged_observation({**row, "observation": [1]}, setting)
    with pytest.raises(ArtifactError, match="lacks or garbles 'step'"):
        logged_observation({}, setting)
    more = {**row["observation"], "of_a_later_version": 1}
    assert logged_observation({**row, "observation": more}, setting) == logged_observation(row, setting)
