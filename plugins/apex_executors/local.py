"""Executor ``local``: a pool of warm processes; one that dies or hangs costs nobody else anything."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait

from apex_framework.errors import ConfigError
from apex_framework.interfaces import EpisodeJob, EpisodeResult, infrastructure_failure

from .process import WorkerProcess


@dataclass(slots=True)
class _Flight:
    """A job in a worker's hands."""

    worker: WorkerProcess
    job: EpisodeJob
    attempt: int
    deadline: float


class LocalExecutor:
    """Jobs are taken one by one as workers fall idle, so whoever feeds them can stop at any time.

    A job whose worker dies is tried once more in a new one; a job that outlives ``limit_s`` is not. Both end as
    infrastructure failures. While entered as a context, workers stay warm from one run to the next.
    """

    name = "local"

    def __init__(self, *, limit_s: float = 900.0) -> None:
        """``limit_s``: wall seconds that one episode may take. Raises ConfigError."""
        if limit_s <= 0:
            raise ConfigError("executor local: limit_s must be positive")
        self._limit_s = limit_s
        self._entered = False
        self._warm: dict[str, list[WorkerProcess]] = {}

    def __enter__(self) -> LocalExecutor:
        self._entered = True
        return self

    def __exit__(self, *_error: object) -> None:
        self._entered = False
        warm = [worker for workers in self._warm.values() for worker in workers]
        self._warm.clear()
        _stop(warm, busy=False)

    def run(
        self, jobs: Iterable[EpisodeJob], work: Callable[[EpisodeJob], EpisodeResult], *, workers: int
    ) -> Iterator[EpisodeResult]:
        """Yield one result per job. Raises ConfigError for fewer than one worker or for work without a name."""
        if workers < 1:
            raise ConfigError("at least one worker is needed", "--workers 1")
        if "<" in work.__qualname__ or work.__module__ == "__main__":
            raise ConfigError(f"{work.__qualname__} cannot be imported by name", "define it at the top of a module")
        return self._run(iter(jobs), f"{work.__module__}:{work.__qualname__}", workers)

    def _run(self, source: Iterator[EpisodeJob], work: str, workers: int) -> Iterator[EpisodeResult]:
        idle = self._warm.setdefault(work, [])
        flights: dict[object, _Flight] = {}
        again: deque[EpisodeJob] = deque()
        try:
            while True:
                while len(flights) < workers:
                    job, attempt = (again.popleft(), 2) if again else (next(source, None), 1)
                    if job is None:
                        break
                    worker = idle.pop() if idle else WorkerProcess(work)
                    worker.send(job)
                    flights[worker.connection] = _Flight(worker, job, attempt, time.monotonic() + self._limit_s)
                if not flights:
                    return
                yield from self._collect(flights, idle, again)
        finally:
            _stop((flight.worker for flight in flights.values()), busy=True)
            if not self._entered:
                _stop(idle, busy=False)
                idle.clear()

    def _collect(
        self, flights: dict[object, _Flight], idle: list[WorkerProcess], again: deque[EpisodeJob]
    ) -> Iterator[EpisodeResult]:
        nearest = min(flight.deadline for flight in flights.values())
        ready = wait([flight.worker.connection for flight in flights.values()], max(0.0, nearest - time.monotonic()))
        results: list[EpisodeResult] = []
        for arrived in ready:
            flight = flights.pop(arrived)
            result = flight.worker.receive()
            if result is not None:
                idle.append(flight.worker)
                results.append(result)
                continue
            status = flight.worker.stop(busy=False)  # a signal now would be taken for what ended it
            if flight.attempt == 1:
                again.append(flight.job)
            else:
                results.append(infrastructure_failure(flight.job, f"its worker died twice (status {status})"))
        now = time.monotonic()
        for connection, flight in list(flights.items()):
            if flight.deadline <= now:
                del flights[connection]
                flight.worker.stop()
                results.append(infrastructure_failure(flight.job, f"took more than {self._limit_s:g} s"))
        yield from results


def _stop(workers: Iterable[WorkerProcess], *, busy: bool) -> None:
    workers = list(workers)
    for worker in workers:
        worker.ask_to_stop(busy=busy)  # all of them first, so that they end side by side
    for worker in workers:
        worker.stop(busy=busy)
