"""A broken plugin is a result with one clear reason, never an exception: neither success nor failure of the arm."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apex_framework.episode.arm import Arm
from apex_framework.episode.episode import run_episode
from apex_framework.episode.workshop import workshop_for
from apex_framework.interfaces import EpisodeJob, EpisodeResult

Play = Callable[..., EpisodeResult]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """Episodes the way workers run them, with a stranger's distribution installed."""
    place = tmp_path_factory.mktemp("site")
    info = place / "broken_pieces-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-pieces\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[apex_framework]\nbroken = broken_pieces\n")
    sys.path[:0] = [str(place), str(Path(__file__).parent)]
    suites: set[str] = set()

    def run(*, suite: str = "tiny", task: str = "clamp", **arm: Any) -> EpisodeResult:
        suites.add(suite)
        setting = {**Arm("broken").to_json(), **arm}
        return run_episode(EpisodeJob(0, setting, task, 0, {"run_id": "r", "suite": suite, "split": "dev"}))

    yield run
    for suite in suites:
        workshop_for({"suite": suite, "split": "dev"}).close()
    del sys.path[:2]


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "begin": ({"controller": "BeginBreaks"}, "begin is broken"),
    "first decision": ({"controller": "FirstBreaks"}, "the first decision is broken"),
    "later decision": ({"controller": "LaterBreaks"}, "a later decision is broken"),
    "learn": ({"controller": "LearnBreaks"}, "learn is broken"),
    "no decision": ({"controller": "NoDecision"}, "'good' returned a str, not a Decision"),
    "unknown topology": ({"controller": "Elsewhere"}, "'good' chose 'moebius', which is not in its topology set"),
    "wrong kind": ({"controller": "OfAnotherKind"}, "is no Controller: it lacks"),
    "unknown controller": ({"controller": "god"}, "unknown controller 'god'"),
    "roster": ({"team": "RosterBreaks"}, "the roster is broken"),
    "agents": ({"team": "AgentsBreak"}, "the agents are broken"),
    "team size": ({"team_size": 99}, "team swe has 3 to 10 members, not 99"),
    "routes": ({"topologies": ["routes_break"]}, "the routes are broken"),
    "tasks": ({"suite": "TasksBreak"}, "the tasks are broken"),
    "grade": ({"suite": "GradeBreaks"}, "the judge is broken"),
    "no verdict": ({"suite": "NobodyJudges"}, "no judge at home"),
    "no such task": ({"task": "gone"}, "has no task 'gone'"),
    "unknown setting": ({"colour": "blue"}, "unknown arm setting 'colour'"),
}


@pytest.mark.parametrize(("arm", "reason"), CASES.values(), ids=CASES)
def test_what_breaks_is_infrastructure_and_says_why(play: Play, arm: dict[str, Any], reason: str) -> None:
    record = play(**arm).record
    assert record["status"] == "infrastructure" and not record["success"]
    assert reason in record["reason"] and "\n" not in record["reason"] and "TaskGroup" not in record["reason"]
    assert record["wall_ms"] > 0


def test_the_same_machinery_works_when_nothing_is_broken(play: Play) -> None:
    record = play(controller="Good").record
    assert record["status"] == "finished" and record["success"]


def test_an_episode_that_broke_leaves_no_workspace_behind(play: Play) -> None:
    play(controller="Good")
    shop = workshop_for({"suite": "tiny", "split": "dev"})
    scratch = shop.workspaces.create(shop.task("clamp"))
    place = scratch.root.parent
    scratch.dispose()
    before = {p.name for p in place.glob("w*")}
    for controller in ("FirstBreaks", "LaterBreaks", "LearnBreaks"):
        play(controller=controller)
    assert {p.name for p in place.glob("w*")} == before
