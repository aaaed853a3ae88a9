"""What a disk or somebody took of finished episodes is missed by what their lines count, and those are run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from apex_framework.analysis.recompute import differences
from apex_framework.experiment.artifacts import RunFolder
from apex_framework.experiment.layout import OWN_FILES, episode_folder
from apex_framework.experiment.manifest import verify_manifest
from apex_framework.experiment.plan import Plan
from apex_framework.experiment.shortfall import shortfalls
from apex_framework.interfaces import EpisodeJob, EpisodeResult

MakePlan = Callable[..., Plan]
FIRST = ("static_star", "alpha-0", 0)


def with_tests(work: Callable[[EpisodeJob], EpisodeResult], job: EpisodeJob) -> EpisodeResult:
    """An episode that ran tests, decided at every step and was refused a call; and what no column counts."""
    made = work(job)
    events = [
        {"event": "ToolUsed", "tool": tool, "ok": ok}
        for tool, ok in (("test.run", True), ("test.run", False), ("fs.read", True), ("test.run", True))
    ]
    record = {**made.record, "wall_ms": 1.0, "test_runs": 2, "denied": 1, "decision_ms": [0.1] * made.record["steps"]}
    return replace(made, record=record, calls=(*made.calls, {"status": "denied"}), events=tuple(events))


def cut(path: Path, lines: int) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lines]))


def own(run: Path, name: str) -> Path:
    return episode_folder(run, FIRST) / name


@pytest.fixture
def stopped(tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType) -> Iterator[tuple[Path, Any]]:
    """A run of which everything but the manifest is there, and what one episode of it is."""
    plan = make_plan()
    with RunFolder.create(tmp_path / "r", plan) as folder:
        for job in plan.jobs():
            folder.add(with_tests(fake_episodes.work, job))
    yield tmp_path / "r", lambda job: with_tests(fake_episodes.work, job)


def contents(run: Path) -> dict[str, bytes]:
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in run.rglob("*")
        if path.is_file() and path.name not in (".lock", "run.json")
    }


@pytest.mark.parametrize(
    ("damage", "keys", "what"),
    [
        (lambda run: None, 0, ""),
        (lambda run: cut(run / "calls.jsonl", 1), 1, "calls.jsonl has "),
        (lambda run: cut(run / "decisions.jsonl", 1), 1, "decisions.jsonl has "),
        (lambda run: cut(run / "events.jsonl", 1), 1, "events.jsonl has 1 of its 2 lines"),
        (lambda run: (run / "calls.jsonl").unlink(), 8, "calls.jsonl has 0 of its "),
        (lambda run: (run / "switches.jsonl").unlink(), 8, "switches.jsonl has 0 of its "),
        *((lambda run, name=name: own(run, name).unlink(), 1, f"{name} is missing") for name in OWN_FILES),
        (lambda run: own(run, "trace.jsonl").write_bytes(b""), 1, "trace.jsonl is empty"),
    ],
)
def test_episodes_that_lost_lines_are_run_again(
    stopped: tuple[Path, Any], damage: Callable[[Path], object], keys: int, what: str
) -> None:
    run, work = stopped
    whole = contents(run)
    damage(run)
    with RunFolder.reopen(run) as folder:
        assert len(folder.lost) == keys and all(what in told for told in folder.lost.values())
        assert len(folder.records) == 8 - keys and not folder.records.keys() & folder.lost.keys()
        for job in folder.plan.jobs():
            if (str(job.arm["name"]), job.task_id, job.seed) in folder.lost:
                folder.add(work(job))
        folder.finish()
    assert {name: data for name, data in contents(run).items() if name in whole} == whole
    verify_manifest(run)
    assert list(differences(run)) == []


def test_what_was_not_counted_is_not_missed(tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType) -> None:
    """Episodes that could not be run, and those of others, count less; rows beyond what is counted are no shortfall."""
    plan = make_plan()
    columns = ("calls", "switches", "steps")
    with RunFolder.create(tmp_path / "r", plan) as folder:
        for job in plan.jobs():
            made = fake_episodes.work(job)
            folder.add(replace(made, record={k: v for k, v in made.record.items() if k not in columns}, trace=()))
    assert shortfalls(tmp_path / "r") == {}
