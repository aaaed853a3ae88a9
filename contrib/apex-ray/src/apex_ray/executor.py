"""Executor ``ray``: the same run on a cluster. Nodes do episodes; what is written, is written here."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import ray
from ray.exceptions import RayError

from apex_framework import ConfigError, EpisodeJob, EpisodeResult, infrastructure_failure
from apex_framework.errors import ExecutorError

from .cluster import Cluster
from .crew import ANSWER_S, Crew, dismiss, short
from .facts import Seen, seen
from .node import Died, Unseen
from .options import Options

_LOOK_S: Final = 1.0
"""Seconds after which a wait looks up: signals are heard then, and deadlines."""


@dataclass(slots=True)
class _Flight:
    """A job in an actor's hands."""

    actor: Any
    job: EpisodeJob
    deaths: int
    deadline: float


class RayExecutor:
    """Jobs are taken one by one as actors fall idle, so whoever feeds them can stop at any time.

    A job whose worker, actor or node dies is tried once more elsewhere; a job that outlives ``limit_s`` is not, and
    its actor is ended. Both end as infrastructure failures. While entered as a context, the connection stays open and
    actors stay warm from one run to the next.
    """

    name = "ray"

    def __init__(self, spec: str = "") -> None:
        """``spec`` are options as in ``address=head:6379,limit_s=900``. Raises ConfigError."""
        self._options = Options.read(spec)
        self._cluster = Cluster(self._options)
        self._entered = False
        self._crews: dict[str, Crew] = {}

    def __enter__(self) -> RayExecutor:
        """Connect. Raises ExecutorError when no cluster can be used."""
        self._cluster.open()
        self._entered = True
        return self

    def __exit__(self, *_error: object) -> None:
        self._entered = False
        self._close()

    def run(
        self, jobs: Iterable[EpisodeJob], work: Callable[[EpisodeJob], EpisodeResult], *, workers: int
    ) -> Iterator[EpisodeResult]:
        """Yield one result per job. Raises ConfigError for fewer than one worker or for work without a name.

        Raises ExecutorError while it goes on when the cluster cannot be used, has no room, or is of other versions.
        """
        if workers < 1:
            raise ConfigError("at least one worker is needed", "--workers 1")
        if "<" in work.__qualname__ or work.__module__ == "__main__":
            raise ConfigError(f"{work.__qualname__} cannot be imported by name", "define it at the top of a module")
        return self._run(iter(jobs), f"{work.__module__}:{work.__qualname__}", workers)

    def _run(self, source: Iterator[EpisodeJob], work: str, workers: int) -> Iterator[EpisodeResult]:
        flights: dict[Any, _Flight] = {}
        again: deque[tuple[EpisodeJob, int]] = deque()
        more = True
        try:
            self._cluster.open()
            crew = self._crews[work] if work in self._crews else self._crews.setdefault(work, Crew(work, self._options))
            while True:
                while crew.idle and len(flights) < workers and (again or more):
                    job, deaths = again.popleft() if again else (next(source, None), 0)
                    if job is None:
                        more = False
                        break
                    flight = _Flight(crew.idle.pop(), job, deaths, time.monotonic() + self._options.limit_s)
                    flights[flight.actor.do.remote(job, _shared(job))] = flight
                if not flights and not again and not more:
                    return
                if again or more:
                    crew.ask(workers - len(flights) - len(crew.idle) - len(crew.coming))
                crew.patience(len(flights))
                yield from self._collect(flights, crew, again)
        finally:
            self._end(flights)

    def _collect(
        self, flights: dict[Any, _Flight], crew: Crew, again: deque[tuple[EpisodeJob, int]]
    ) -> Iterator[EpisodeResult]:
        nearest = min((flight.deadline for flight in flights.values()), default=float("inf"))
        waiting = [*flights, *crew.coming]
        ready, _ = ray.wait(
            waiting, num_returns=1, timeout=min(_LOOK_S, max(0.0, nearest - time.monotonic())), fetch_local=False
        )
        results: list[EpisodeResult] = []
        for reference in ready:
            if reference in crew.coming:
                crew.welcome(reference)
                continue
            flight = flights.pop(reference)
            result, died = self._landed(flight, reference, crew)
            if result is None and flight.deaths == 0:
                again.append((flight.job, 1))
            else:
                results.append(result or infrastructure_failure(flight.job, f"its worker died twice ({died})"))
        now = time.monotonic()
        late = {reference: flight for reference, flight in flights.items() if flight.deadline <= now}
        for reference, flight in late.items():
            del flights[reference]
            results.append(infrastructure_failure(flight.job, f"took more than {self._options.limit_s:g} s"))
        dismiss(flight.actor for flight in late.values())
        yield from results

    def _landed(self, flight: _Flight, reference: Any, crew: Crew) -> tuple[EpisodeResult | None, str]:
        """A job's result, or None and what died; an actor that still lives waits for the next job."""
        try:
            answer = ray.get(reference, timeout=ANSWER_S)
        except RayError as error:  # actor, node, or the way there; also whatever broke in the actor itself
            dismiss([flight.actor])
            return None, short(error)
        crew.idle.append(flight.actor)
        if isinstance(answer, Unseen):
            raise ExecutorError(
                f"the ceiling in {answer.path} cannot be kept on node {answer.node}: it is not the same file there, or another machine",
                "without --run-budget and --day-budget a run may use every node; with them, one machine's",
            )
        return (None, f"status {answer.status}") if isinstance(answer, Died) else (answer, "")

    def _end(self, flights: dict[Any, _Flight]) -> None:
        if not ray.is_initialized():
            return
        try:
            dismiss(flight.actor for flight in flights.values())
            for crew in self._crews.values():
                crew.give_up()
        finally:
            if not self._entered:
                self._close()

    def _close(self) -> None:
        crews, self._crews = list(self._crews.values()), {}
        try:
            if ray.is_initialized():
                for crew in crews:
                    crew.close()
        finally:
            self._cluster.close()


def _shared(job: EpisodeJob) -> dict[str, Seen | None]:
    """Files of ceilings that this job shares with others, as they are seen here. Raises ExecutorError.

    They are SQLite files with a write-ahead log, which only processes of one machine can share: not even over a network
    file system.
    """
    budgets = job.run.get("budgets") or {}
    scopes = job.arm.get("scopes", ())
    stores = []
    for scope in ("run", "day"):
        if budgets.get(scope) is None and scope not in scopes:
            continue
        if not budgets.get(f"{scope}_store"):
            raise ExecutorError(
                f"executor ray: the ceiling of the {scope} has no file that workers could share",
                f"name one: --set {scope}_store=PATH" if scope == "day" else "--run-budget N",
            )
        stores.append(str(budgets[f"{scope}_store"]))
    return {path: seen(path) for path in stores}
