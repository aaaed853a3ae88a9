"""A run: every episode once, durable as it ends, the same file whatever the workers and the interruptions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from apex_executors.local import LocalExecutor
from apex_framework.errors import BudgetTooSmallError
from apex_framework.events import (
    CallDenied,
    DecisionTaken,
    EpisodeFinished,
    EpisodeStarted,
    RunFinished,
    SwitchFinished,
)
from apex_framework.experiment.artifacts import RunFolder
from apex_framework.experiment.manifest import DONE, verify_manifest
from apex_framework.experiment.plan import Plan
from apex_framework.experiment.run import Runner, RunOutcome
from apex_framework.ports import SystemFiles

MakePlan = Callable[..., Plan]


def run(path: Path, plan: Plan, work: Callable[..., object], workers: int = 1, **options: object) -> RunOutcome:
    folder = RunFolder.reopen(path) if (path / "run.json").exists() else RunFolder.create(path, plan)
    with folder:
        return Runner(folder, LocalExecutor(), work, workers=workers, **options).run()  # type: ignore[arg-type]  # any work, any option


def rows(path: Path, name: str = "episodes.jsonl") -> list[dict[str, object]]:
    lines = (path / name).read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not k.endswith("_ms")} for line in lines]


def test_one_and_two_workers_leave_the_same_lines(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType
) -> None:
    plan = make_plan(seeds=(0, 1))
    assert run(tmp_path / "a", plan, fake_episodes.work).complete
    assert run(tmp_path / "b", plan, fake_episodes.uneven, workers=2).complete
    for name in ("episodes.jsonl", "decisions.jsonl", "switches.jsonl", "calls.jsonl"):
        assert rows(tmp_path / "a", name) == rows(tmp_path / "b", name)
    keys = [(row["arm"], row["task_id"], row["seed"]) for row in rows(tmp_path / "a")]
    assert keys == plan.keys()


def test_a_finished_folder_has_all_its_parts(tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType) -> None:
    plan = make_plan()
    outcome = run(tmp_path / "r", plan, fake_episodes.work)
    assert outcome.exit_status == 0
    verify_manifest(tmp_path / "r")
    listed = (tmp_path / "r" / DONE).read_text()
    for name in ("run.json", "config.toml", "episodes.jsonl", "predictions/bandit_v1.jsonl", "metrics/summary.json"):
        assert f"  {name}\n" in listed
    assert (tmp_path / "r/episodes/static_star/alpha-0/0/patch.diff").read_text() == "--- a\n"
    prediction = json.loads((tmp_path / "r/predictions/static_star.jsonl").read_text().splitlines()[0])
    assert set(prediction) == {"instance_id", "model_name_or_path", "model_patch"}
    metrics = json.loads((tmp_path / "r/metrics/summary.json").read_text())
    assert metrics["static_star"]["counters"]["episodes"] == 4
    assert metrics["static_star"]["histograms"]["switch_prepare_ms"]["p95"] == 0.2
    assert ".lock" not in listed


def test_observers_hear_of_every_episode(tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType) -> None:
    heard: list[object] = []
    run(tmp_path / "r", make_plan(), fake_episodes.work, notify=heard.append)
    count = {kind: sum(isinstance(e, kind) for e in heard) for kind in (EpisodeStarted, EpisodeFinished, RunFinished)}
    assert count == {EpisodeStarted: 8, EpisodeFinished: 8, RunFinished: 1}
    switches = sum(row["switches"] for row in rows(tmp_path / "r"))
    assert sum(isinstance(e, SwitchFinished) for e in heard) == switches > 0
    assert any(isinstance(e, DecisionTaken) for e in heard)
    assert not any(isinstance(e, CallDenied) for e in heard)


def test_work_that_raises_is_an_infrastructure_failure_and_status_4(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType
) -> None:
    outcome = run(tmp_path / "r", make_plan(), fake_episodes.raising)
    assert (outcome.infrastructure, outcome.exit_status) == (8, 4)
    assert {row["status"] for row in rows(tmp_path / "r")} == {"infrastructure"}
    assert rows(tmp_path / "r")[0]["reason"] == "RuntimeError: no luck"


def test_a_budget_that_pays_for_nothing_stops_the_run(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType
) -> None:
    with pytest.raises(BudgetTooSmallError) as caught:
        run(tmp_path / "r", make_plan(), fake_episodes.denied)
    assert caught.value.exit_status == 2


PROGRAM = """
import sys
from pathlib import Path
from apex_executors.local import LocalExecutor
from apex_framework.experiment.artifacts import RunFolder
from apex_framework.experiment.run import Runner
import fake_episodes
with RunFolder.reopen(Path(sys.argv[1])) as folder:
    outcome = Runner(folder, LocalExecutor(), fake_episodes.slow, workers=2).run()
sys.exit(outcome.exit_status)
"""


def start(path: Path, plan: Plan) -> subprocess.Popen[bytes]:
    RunFolder.create(path, plan).close()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], env=env, start_new_session=True)


def wait_for_lines(path: Path, count: int) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if (path / "episodes.jsonl").exists() and len((path / "episodes.jsonl").read_bytes().splitlines()) >= count:
            return
        time.sleep(0.02)
    raise AssertionError("no episode finished in time")


def test_kill_9_loses_only_episodes_in_flight(tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType) -> None:
    plan = make_plan(seeds=(0, 1, 2, 3))
    process = start(tmp_path / "killed", plan)
    wait_for_lines(tmp_path / "killed", 3)
    process.kill()
    process.wait()
    before = {(row["arm"], row["task_id"], row["seed"]) for row in rows(tmp_path / "killed")}
    assert 3 <= len(before) < plan.size
    again: list[EpisodeStarted] = []
    outcome = run(
        tmp_path / "killed",
        plan,
        fake_episodes.work,
        notify=lambda event: again.append(event) if isinstance(event, EpisodeStarted) else None,
    )
    assert outcome.complete
    assert {(e.arm, e.task_id, e.seed) for e in again} == set(plan.keys()) - before
    run(tmp_path / "whole", plan, fake_episodes.work)
    for name in ("episodes.jsonl", "decisions.jsonl", "calls.jsonl"):
        assert rows(tmp_path / "killed", name) == rows(tmp_path / "whole", name)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_first_signal_drains(tmp_path: Path, make_plan: MakePlan, number: int, status: int) -> None:
    plan = make_plan(seeds=tuple(range(8)))  # more than a busy machine finishes before the signal is there
    process = start(tmp_path / "r", plan)
    wait_for_lines(tmp_path / "r", 2)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    assert process.wait(60) == status
    left = RunFolder.reopen(tmp_path / "r")
    assert 2 <= len(left.records) < plan.size
    left.close()


def test_a_second_signal_ends_it_at_once(tmp_path: Path, make_plan: MakePlan) -> None:
    program = PROGRAM.replace("fake_episodes.slow", "fake_episodes.endless")
    path = tmp_path / "r"
    RunFolder.create(path, make_plan()).close()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], env=env, start_new_session=True)
    wait_for_lines(path, 6)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130


@pytest.mark.parametrize("torn", ["calls.jsonl", "episodes.jsonl"])
def test_a_second_signal_while_a_line_is_written_leaves_the_whole_lines(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType, torn: str
) -> None:
    class Interrupted(SystemFiles):
        """The second signal arrives in the middle of the third episode's write."""

        writes = 0

        def append(self, path: Path, data: bytes, *, sync: bool) -> None:
            self.writes += path.name == torn
            if self.writes < 3:
                return super().append(path, data, sync=sync)
            super().append(path, data[: len(data) // 2 + 1], sync=False)
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)

    with RunFolder.create(tmp_path / "r", make_plan(), files=Interrupted()) as folder:
        outcome = Runner(folder, LocalExecutor(), fake_episodes.work, workers=1).run()
    assert (outcome.finished, outcome.exit_status) == (2, 130)
    for name in ("episodes.jsonl", "calls.jsonl"):
        assert {(row["arm"], row["task_id"], row["seed"]) for row in rows(tmp_path / "r", name)} == set(folder.records)
    assert run(tmp_path / "r", make_plan(), fake_episodes.work).exit_status == 0
