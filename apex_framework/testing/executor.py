"""Conformance kit of executors."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Final

from ..interfaces import EpisodeJob, EpisodeResult, Executor
from .conformance import run_checks

KIND: Final = "executor"
CLOSE_S: Final = 10.0
"""Closing after the first result must take less, and leave no process behind."""

Make = Callable[[], Executor]


def check_executor(make: Make) -> None:
    """Run every check on fresh executors. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "has_a_name": lambda: check_has_a_name(make),
            "no_jobs_no_results": lambda: check_no_jobs_no_results(make),
            "one_result_per_job": lambda: check_one_result_per_job(make),
            "no_result_twice": lambda: check_no_result_twice(make),
            "results_arrive_whole": lambda: check_results_arrive_whole(make),
            "a_failing_job_comes_back": lambda: check_a_failing_job_comes_back(make),
            "a_dying_worker_costs_one_job": lambda: check_a_dying_worker_costs_one_job(make),
            "closing_stops_it": lambda: check_closing_stops_it(make),
        },
    )


def check_has_a_name(make: Make) -> None:
    """It says what it is."""
    name = make().name
    assert isinstance(name, str) and name, f"name is {name!r}"


def check_no_jobs_no_results(make: Make) -> None:
    """An empty plan ends at once."""
    results = list(make().run([], work, workers=2))
    assert results == [], f"{len(results)} results of no jobs"


def check_one_result_per_job(make: Make) -> None:
    """Every job is answered, with more jobs than workers and with fewer."""
    for count, workers in ((5, 2), (1, 2), (3, 1)):
        got = sorted({r.index for r in make().run(jobs("echo", count), work, workers=workers)})
        assert got == list(range(count)), f"{count} jobs, {workers} workers: results {got}"


def check_no_result_twice(make: Make) -> None:
    """No job is answered twice: a run refuses the second answer."""
    got = [r.index for r in make().run(jobs("echo", 3), work, workers=2)]
    assert len(set(got)) == len(got), f"results {sorted(got)}"


def check_results_arrive_whole(make: Make) -> None:
    """What work returned is what arrives."""
    job = jobs("echo", 1)[0]
    for result in make().run([job], work, workers=1):
        assert result == work(job), f"{result}"


def check_a_failing_job_comes_back(make: Make) -> None:
    """A job whose work raises comes back as an infrastructure failure; the others are done."""
    plan = [*jobs("echo", 2), *jobs("raise", 1, first=2)]
    _only_the_last_fails(list(make().run(plan, work, workers=2)))


def check_a_dying_worker_costs_one_job(make: Make) -> None:
    """A job whose process dies comes back as an infrastructure failure; the others are done."""
    plan = [*jobs("echo", 2), *jobs("die", 1, first=2)]
    _only_the_last_fails(list(make().run(plan, work, workers=2)))


def check_closing_stops_it(make: Make) -> None:
    """Closing the iterator ends soon and leaves no process of this program behind."""
    before = set(multiprocessing.active_children())
    results = iter(make().run([*jobs("echo", 1), *jobs("sleep", 3, first=1)], work, workers=2))
    next(results)
    started = time.monotonic()
    if isinstance(results, Generator):
        results.close()
    del results
    took = time.monotonic() - started
    left = [p for p in multiprocessing.active_children() if p not in before]
    for process in left:
        process.kill()
        process.join()
    assert took < CLOSE_S, f"closing took {took:.1f} s"
    assert not left, f"{len(left)} processes are left"


def jobs(task_id: str, count: int, *, first: int = 0) -> list[EpisodeJob]:
    """Jobs for ``work``: ``task_id`` is what happens (echo, raise, die, sleep)."""
    run: dict[str, Any] = {"pid": os.getpid()}
    return [EpisodeJob(i, {"name": "arm", "budget": 10}, task_id, 7, run) for i in range(first, first + count)]


def work(job: EpisodeJob) -> EpisodeResult:
    """Do what the job's task says."""
    if job.task_id == "raise":
        raise ValueError("asked to fail")
    if job.task_id == "die":
        if os.getpid() == job.run["pid"]:
            raise ValueError("asked to die, but not in a process of its own")
        os._exit(9)
    if job.task_id == "sleep":
        with suppress(KeyboardInterrupt):
            time.sleep(60 if os.getpid() != job.run["pid"] else 0)
    record = {"arm": job.arm["name"], "task_id": job.task_id, "seed": job.seed, "status": "finished", "success": True}
    return EpisodeResult(job.index, record, decisions=({"step": 0},), patch="+ä\n")


def _only_the_last_fails(results: list[EpisodeResult]) -> None:
    status = {r.index: r.record.get("status") for r in results}
    assert set(status) == {0, 1, 2}, f"results for jobs {sorted(status)}"
    assert status == {0: "finished", 1: "finished", 2: "infrastructure"}, f"{status}"
