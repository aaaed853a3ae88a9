"""One broken executor per check of the kit: each fails exactly that one."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from ...interfaces import EpisodeJob, EpisodeResult, Executor, infrastructure_failure

Work = Callable[[EpisodeJob], EpisodeResult]


class Sound:
    """An executor with nothing wrong: one job after the other, in this process."""

    name = "sound"

    def run(self, jobs: Iterable[EpisodeJob], work: Work, *, workers: int) -> Iterator[EpisodeResult]:
        """One result per job."""
        for job in jobs:
            yield self._one(job, work)

    def _one(self, job: EpisodeJob, work: Work) -> EpisodeResult:
        try:
            return work(job)
        except ValueError as error:
            return infrastructure_failure(job, str(error))


class Nameless(Sound):
    """Has an empty name."""

    name = ""


class NeedsAJob(Sound):
    """Cannot run an empty plan."""

    def run(self, jobs: Iterable[EpisodeJob], work: Work, *, workers: int) -> Iterator[EpisodeResult]:
        """Looks at the first job."""
        todo = list(jobs)
        assert todo[0].arm
        yield from super().run(todo, work, workers=workers)


class TakesFour(Sound):
    """Stops after four jobs."""

    def run(self, jobs: Iterable[EpisodeJob], work: Work, *, workers: int) -> Iterator[EpisodeResult]:
        """The first four."""
        yield from super().run(islice(jobs, 4), work, workers=workers)


class TellsTwice(Sound):
    """Sends every result again, as after an answer that seemed lost."""

    def run(self, jobs: Iterable[EpisodeJob], work: Work, *, workers: int) -> Iterator[EpisodeResult]:
        """Each of them two times."""
        for result in super().run(jobs, work, workers=workers):
            yield result
            yield result


class LosesPatches(Sound):
    """Sends the record only."""

    def _one(self, job: EpisodeJob, work: Work) -> EpisodeResult:
        return replace(super()._one(job, work), patch="")


class TakesFailureForSuccess(Sound):
    """Counts a job that raises as finished, but not one that dies."""

    def _one(self, job: EpisodeJob, work: Work) -> EpisodeResult:
        result = super()._one(job, work)
        failed = job.task_id == "raise"
        return replace(result, record={**result.record, "status": "finished"}) if failed else result


class DropsDeadJobs(Sound):
    """Says nothing of a job whose process died."""

    def run(self, jobs: Iterable[EpisodeJob], work: Work, *, workers: int) -> Iterator[EpisodeResult]:
        """All others."""
        yield from super().run((job for job in jobs if job.task_id != "die"), work, workers=workers)


class LeavesAProcess(Sound):
    """Ends its worker at the end of the plan, not when it is closed before."""

    def run(self, jobs: Iterable[EpisodeJob], work: Work, *, workers: int) -> Iterator[EpisodeResult]:
        """With a process beside it."""
        forgotten = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,), daemon=True)
        forgotten.start()
        for job in jobs:
            yield self._one(job, work)
        forgotten.kill()
        forgotten.join()


BROKEN: dict[str, Callable[[], Executor]] = {
    "has_a_name": Nameless,
    "no_jobs_no_results": NeedsAJob,
    "one_result_per_job": TakesFour,
    "no_result_twice": TellsTwice,
    "results_arrive_whole": LosesPatches,
    "a_failing_job_comes_back": TakesFailureForSuccess,
    "a_dying_worker_costs_one_job": DropsDeadJobs,
    "closing_stops_it": LeavesAProcess,
}
"""Check -> an executor that fails it."""
