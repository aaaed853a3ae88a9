"""What the harness costs per episode beyond solver and tests, over a whole run: planning order, episode, lines on disk, books.

A run of null episodes (nobody thinks, nothing is executed) goes through the runner and the run folder in this process;
``-n`` is their number (1,000), in ten equal slices. CPU is this process's; memory is its resident set after each slice.
Case ``local executor`` is the same run in a worker process, CPU of both counted, start-up included.
"""

from __future__ import annotations

import gc
import itertools
import resource
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

from ..interfaces import EpisodeJob, EpisodeResult
from .kills import null_episode

EPISODES = 1_000
MESSAGES = 25
SLICES = 10


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``harness``. ``args.n`` is the number of episodes, at least 20."""
    episodes = max(2 * SLICES, int(getattr(args, "n", None) or EPISODES))
    with tempfile.TemporaryDirectory(prefix="apex-harness-") as folder:
        yield from _inside(Path(folder) / "inside", episodes)
        yield from _outside(Path(folder) / "outside", episodes)


def _inside(path: Path, episodes: int) -> Iterator[dict[str, object]]:
    cpu, resident = [process_time()], [_resident_mib()]
    every, counter = episodes // SLICES, itertools.count(1)

    def count(result: EpisodeResult) -> None:
        if next(counter) % every == 0:
            gc.collect()
            cpu.append(process_time())
            resident.append(_resident_mib())

    _run(path, episodes, _Inline(), count)
    ended = process_time()
    spent = [1000 * (later - sooner) / every for sooner, later in itertools.pairwise(cpu)]
    case = f"{episodes:,} null episodes"
    yield _row(case, "cpu per episode", (ended - cpu[0]) * 1000 / episodes, "ms")
    yield _row(case, "cpu per episode, first slice after warm-up", spent[1], "ms")
    yield _row(case, "cpu per episode, last slice", spent[SLICES - 1], "ms")
    yield _row(case, "books at the end", (ended - cpu[SLICES]) * 1000 / episodes, "ms per episode")
    total = [sum(spent[: i + 1]) for i in range(SLICES)]
    slope, intercept = statistics.linear_regression(range(1, SLICES + 1), total)
    rest = sum((y - intercept - slope * x) ** 2 for x, y in enumerate(total, 1))
    mean = statistics.fmean(total)
    yield _row(case, "R squared of a straight line", 1 - rest / sum((y - mean) ** 2 for y in total), "")
    yield _row(case, "resident memory after the second slice", resident[2], "MiB")
    yield _row(case, "resident memory after the last slice", resident[SLICES], "MiB")


def _outside(path: Path, episodes: int) -> Iterator[dict[str, object]]:
    from ..plugins import load_plugins

    before = process_time() + _children_s()
    _run(path, episodes, load_plugins().catalog.make("executor", "local"), lambda result: None)
    spent = process_time() + _children_s() - before
    yield _row("local executor, one worker", "cpu per episode", spent * 1000 / episodes, "ms")


def _run(path: Path, episodes: int, executor: Any, on_result: Callable[[EpisodeResult], None]) -> None:
    from ..episode.arm import Arm
    from ..experiment.artifacts import RunFolder
    from ..experiment.plan import Plan, PlannedTask
    from ..experiment.run import Runner

    plan = Plan(
        "bench_null", "dev", "none", (PlannedTask(str(MESSAGES)),), (Arm("null"),), seeds=tuple(range(episodes))
    )
    with RunFolder.create(path, plan) as folder:
        Runner(folder, executor, null_episode, on_result=on_result).run()


class _Inline:
    """An executor without processes, so that one process's numbers are all there is."""

    name = "inline"

    def run(
        self, jobs: Iterable[EpisodeJob], work: Callable[[EpisodeJob], EpisodeResult], *, workers: int
    ) -> Iterator[EpisodeResult]:
        return map(work, jobs)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _resident_mib() -> float:
    """Resident set now, where the system tells (Linux); else the largest so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * resource.getpagesize() / 2**20


def _row(case: str, metric: str, value: float, unit: str) -> dict[str, object]:
    row: dict[str, object] = {"bench": "harness", "case": case, "contender": "apex", "metric": metric}
    return row | {"value": round(value, 4), "unit": unit}
