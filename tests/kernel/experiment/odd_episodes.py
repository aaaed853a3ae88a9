"""Episodes whose results no file can hold, or no process can send; importable by name."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import fake_episodes
import numpy

from apex_framework.interfaces import EpisodeJob, EpisodeResult

LONE = "caf\udce9 \ud83d"
"""What is left of a name of a file that is no UTF-8, and half of a letter that a model cut in two."""


class Unreadable(Exception):
    """Travels, and cannot be made again where it arrives."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(one)


def numbers(job: EpisodeJob) -> EpisodeResult:
    """On the first task a score is a number of numpy's."""
    return _on_first(job, decisions=({"step": 0, "scores": {"star": numpy.float32(0.5)}},))


def halves(job: EpisodeJob) -> EpisodeResult:
    """On the first task half letters are in the record and in events."""
    result = fake_episodes.work(job)
    return _on_first(job, record={**result.record, "reason": LONE, "faults": [LONE]}, events=({"event": LONE},))


def half_a_patch(job: EpisodeJob) -> EpisodeResult:
    """On the first task half a letter is in the patch, where no escape can say it."""
    return _on_first(job, patch="+\ud83d\n")


def unsendable(job: EpisodeJob) -> EpisodeResult:
    """On the first task something cannot be pickled."""
    return _on_first(job, events=({"event": "odd", "call": lambda: None},))


def unreadable(job: EpisodeJob) -> EpisodeResult:
    """On the first task something cannot be unpickled."""
    return _on_first(job, events=({"event": "odd", "fault": Unreadable("a", "b")},))


def nothing(job: EpisodeJob) -> EpisodeResult | None:
    """On the first task no result."""
    return None if job.task_id == "alpha-0" else fake_episodes.work(job)


def leaving(job: EpisodeJob) -> EpisodeResult:
    """On the first task the program gives its line up, and ends by itself a while later with a status of its own."""
    if job.task_id == "alpha-0":
        os.closerange(3, 100)
        time.sleep(0.3)
        os._exit(21)
    return fake_episodes.work(job)


def _on_first(job: EpisodeJob, **changes: object) -> EpisodeResult:
    result = fake_episodes.work(job)
    return replace(result, **changes) if job.task_id == "alpha-0" else result  # type: ignore[arg-type]  # odd ones are the point
