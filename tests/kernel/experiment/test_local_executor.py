"""Executor ``local``: what dies or hangs costs itself only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from apex_executors.local import LocalExecutor
from apex_framework.errors import ConfigError
from apex_framework.experiment.plan import Plan
from apex_framework.interfaces import EpisodeJob, Executor
from apex_framework.testing.executor import check_executor

MakePlan = Callable[..., Plan]


def test_a_dying_worker_loses_its_job_only_after_two_tries(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APEX_TEST_MARK", str(tmp_path / "mark"))
    results = list(LocalExecutor().run(make_plan().jobs(), fake_episodes.dying, workers=2))
    failed = [r.record for r in results if r.record["status"] == "infrastructure"]
    assert {r["task_id"] for r in failed} == {"beta-1"}
    assert "died twice" in failed[0]["reason"]
    assert sorted(r.index for r in results) == list(range(8))


def test_a_hanging_episode_is_ended(make_plan: MakePlan, fake_episodes: ModuleType) -> None:
    results = list(LocalExecutor(limit_s=8.0).run(make_plan().jobs(), fake_episodes.endless, workers=2))
    assert sum("took more than 8 s" in str(r.record["reason"]) for r in results) == 2
    assert len(results) == 8


def test_jobs_are_taken_only_as_workers_fall_idle_and_closing_stops_them(
    make_plan: MakePlan, fake_episodes: ModuleType
) -> None:
    taken: list[int] = []

    def jobs() -> Iterator[EpisodeJob]:
        for job in make_plan().jobs():
            taken.append(job.index)
            yield job

    results = LocalExecutor().run(jobs(), fake_episodes.work, workers=2)
    next(results)
    assert len(taken) <= 3
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert len(taken) <= 3


def test_it_is_an_executor_and_refuses_what_it_cannot_do(make_plan: MakePlan, fake_episodes: ModuleType) -> None:
    assert isinstance(LocalExecutor(), Executor)
    with pytest.raises(ConfigError):
        LocalExecutor().run(make_plan().jobs(), fake_episodes.work, workers=0)
    with pytest.raises(ConfigError, match="cannot be imported"):
        LocalExecutor().run(make_plan().jobs(), lambda job: fake_episodes.work(job), workers=1)


def test_it_keeps_the_contract_of_executors() -> None:
    check_executor(LocalExecutor)
