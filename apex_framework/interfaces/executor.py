"""Executor: where episodes are run; and the record that each of them leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class EpisodeJob:
    """One episode to run: everything a worker needs, JSON-ready, so that any machine can take it."""

    index: int
    """Place in the plan's order."""
    arm: Mapping[str, Any]
    """The arm's complete setting, as in run.json."""
    task_id: str
    seed: int
    run: Mapping[str, Any] = field(default_factory=dict)
    """Settings that all jobs of the run share."""


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """What came back: the episode's line and its side records, JSON-ready."""

    index: int
    record: Mapping[str, Any]
    decisions: tuple[Mapping[str, Any], ...] = ()
    switches: tuple[Mapping[str, Any], ...] = ()
    calls: tuple[Mapping[str, Any], ...] = ()
    trace: tuple[Mapping[str, Any], ...] = ()
    patch: str = ""
    transitions: tuple[Any, ...] = ()
    """Controller transitions in order, for training; picklable, never written to disk."""
    events: tuple[Mapping[str, Any], ...] = ()
    """Events of health, pressure and tools, which have no column elsewhere."""
    metrics: tuple[Mapping[str, Any], ...] = ()
    """The episode's metrics, as lines."""
    latency: tuple[Mapping[str, Any], ...] = ()
    """Where time went: messages (sampled), decisions, switches."""
    ops: tuple[Mapping[str, Any], ...] = ()
    """One row per tool call, refused ones included."""


def infrastructure_failure(job: EpisodeJob, reason: str) -> EpisodeResult:
    """The record of an episode that could not be run: neither success nor failure of the arm."""
    record = {
        "arm": job.arm["name"],
        "task_id": job.task_id,
        "seed": job.seed,
        "success": False,
        "tokens": 0,
        "steps": 0,
        "switches": 0,
        "aborted": 0,
        "denied": 0,
        "status": "infrastructure",
        "visible_passed": False,
        "overfit": False,
        "calls": 0,
        "failed_calls": 0,
        "message_tokens": 0,
        "cluster": "",
        "family": "",
        "topologies": {},
        "reason": reason,
        "suite_digest": str(job.run.get("suite_digest", "")),
    }
    return EpisodeResult(job.index, record)


@runtime_checkable
class Executor(Protocol):
    """Runs jobs. Results arrive in any order; a job that cannot be run comes back as an infrastructure failure.

    Jobs are taken only when one can start, so that whoever feeds them can stop. An executor may also be a context
    manager: while entered it may keep its workers warm between runs.
    """

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    def run(
        self, jobs: Iterable[EpisodeJob], work: Callable[[EpisodeJob], EpisodeResult], *, workers: int
    ) -> Iterator[EpisodeResult]:
        """Yield one result per job. Closing the iterator stops the workers; ``work`` is importable by name."""
        ...
