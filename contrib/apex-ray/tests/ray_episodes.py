"""Stand-ins for episodes, importable by name on the nodes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from apex_framework import EpisodeJob, EpisodeResult


def echo(job: EpisodeJob) -> EpisodeResult:
    """What came, whole; enough of it to go through Ray's object store."""
    record = {"arm": job.arm["name"], "task_id": job.task_id, "seed": job.seed, "status": "finished"}
    return EpisodeResult(job.index, record, trace=tuple({"step": n, "text": "x" * 1_000} for n in range(200)))


def dying(job: EpisodeJob) -> EpisodeResult:
    """Kills its process: on task ``twice`` always, on ``once`` the first time, with its actor on ``actor`` the first time."""
    mark = Path(job.run["marks"]) / job.task_id
    if job.task_id == "twice":
        os._exit(9)
    if job.task_id in ("once", "actor") and not mark.exists():
        mark.touch()
        if job.task_id == "actor":
            os.kill(os.getppid(), 9)
        os._exit(9)
    return echo(job)


def leaving(job: EpisodeJob) -> EpisodeResult:
    """Gives its line up, and ends by itself a while later, with a status of its own."""
    os.closerange(3, 100)
    time.sleep(0.3)
    os._exit(21)


def endless(job: EpisodeJob) -> EpisodeResult:
    """Never comes back for task ``endless``; writes who it is into a file named after it."""
    if job.task_id == "endless":
        (Path(job.run["marks"]) / f"{job.index}.pid").write_text(f"{os.getpid()} {os.getppid()}")
        try:
            time.sleep(3600)
        finally:
            (Path(job.run["marks"]) / f"{job.index}.clean").touch()
    return echo(job)


def telling(job: EpisodeJob) -> EpisodeResult:
    """Its process's variables, as the record."""
    return EpisodeResult(job.index, {**echo(job).record, "environment": dict(os.environ), "folder": os.getcwd()})
