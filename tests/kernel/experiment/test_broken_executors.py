"""An executor that doubles, loses or invents results ends the run with its name; what was written stays whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from apex_framework.analysis import read_run
from apex_framework.errors import ExecutorError
from apex_framework.experiment.artifacts import RunFolder
from apex_framework.experiment.plan import Plan
from apex_framework.experiment.run import Runner, Work
from apex_framework.interfaces import EpisodeJob, EpisodeResult
from apex_framework.testing.broken.executor import Sound, TakesFour, TellsTwice


class Loses(Sound):
    """Takes every job, and says nothing of the third."""

    def run(self, jobs: Iterable[EpisodeJob], work: Work, *, workers: int) -> Iterator[EpisodeResult]:
        yield from (self._one(job, work) for job in jobs if job.index != 2)


class Invents(Sound):
    """Answers the third job with an episode of no plan."""

    def _one(self, job: EpisodeJob, work: Work) -> EpisodeResult:
        result = work(job)
        return result if job.index != 2 else replace(result, record={**result.record, "seed": 99})


class Garbles(Sound):
    """Answers the third job with a line that names no episode."""

    def _one(self, job: EpisodeJob, work: Work) -> EpisodeResult:
        return work(job) if job.index != 2 else EpisodeResult(job.index, {})


@pytest.mark.parametrize(
    ("executor", "words", "kept"),
    [
        (TellsTwice, r"gave the result of \w+/\S+/0 a second time", 1),
        (TakesFour, "ended with 4 of 8 episodes done, and nobody stopped it", 4),
        (Loses, "ended with 7 of 8 episodes done, and nobody stopped it", 7),
        (Invents, r"gave the result of \w+/\S+/99 that it was not asked for", 2),
        (Garbles, "gave something that is no result: a row names no episode: 'arm'", 2),
    ],
)
def test_a_broken_executor_is_named_and_the_run_goes_on_with_another(
    tmp_path: Path,
    make_plan: Callable[..., Plan],
    fake_episodes: ModuleType,
    executor: type[Sound],
    words: str,
    kept: int,
) -> None:
    plan = make_plan()
    with (
        pytest.raises(ExecutorError, match=rf"executor 'sound' {words}") as caught,
        RunFolder.create(tmp_path / "r", plan) as folder,
    ):
        Runner(folder, executor(), fake_episodes.work).run()
    assert caught.value.exit_status == 3 and "--executor local" in caught.value.remedy
    assert not (tmp_path / "r/DONE").exists()
    with RunFolder.reopen(tmp_path / "r") as folder:
        assert len(folder.records) == kept
        assert Runner(folder, Sound(), fake_episodes.work).run().exit_status == 0
    rows = read_run(tmp_path / "r").rows
    assert [(row.arm, row.task_id, row.seed) for row in rows] == plan.keys()
