"""What a second worker brings, and what executor ``ray`` costs beside ``local``, over the same episodes in turns.

Episodes are null ones of 100 messages (nobody thinks, no model and no test is waited for), so that all of their time is
work of this machine: about 0.1 s of CPU each. ``-n`` is their number per contender (200), in ten slices; the contenders
take turns slice by slice, each first as often as the others, and stay warm. ``ray`` takes part where apex-ray is
installed, on the cluster of RAY_ADDRESS, one that this machine belongs to, or a Ray that is started for it.

The limit is what the machine gives: the CPU time that two bare processes get together beside one alone, in the same turns.
Two workers cannot be faster than that, and on a busy machine it is near 1.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from ..interfaces import EpisodeJob, Executor
from .kills import null_episode
from .paired import median_interval

EPISODES = 200
MESSAGES = 100
SLICES = 10
_SPIN = (
    "import time; end = time.perf_counter() + 0.5\nwhile time.perf_counter() < end: pass\nprint(time.process_time())"
)


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``scaling``. ``args.n`` is the number of episodes per contender, at least 2 per slice."""
    from ..plugins import load_plugins

    size = max(2, int(getattr(args, "n", None) or EPISODES) // SLICES)
    say = getattr(args, "say", None) or (lambda text: None)
    catalog = load_plugins().catalog
    entry = next((entry for entry in catalog.entries("executor") if entry.name == "ray"), None)
    contenders = {"local, 1 worker": ("local", 1), "local, 2 workers": ("local", 2)}
    if entry is not None and entry.status == "ok":
        contenders["ray, 2 workers"] = ("ray", 2)
    else:
        yield _row("ray, 2 workers", "not installed", 1.0, "")
    walls: dict[str, list[float]] = {name: [] for name in contenders}
    with contextlib.ExitStack() as stack:
        warm: dict[str, Executor] = {}
        for name, (executor, workers) in contenders.items():
            begun = time.perf_counter()
            warm[name] = catalog.make("executor", executor)
            if isinstance(warm[name], contextlib.AbstractContextManager):
                stack.enter_context(warm[name])  # type: ignore[arg-type]  # it is one
            _slice(warm[name], 4 * workers, workers)
            yield _row(name, "start-up, with the first episodes", time.perf_counter() - begun, "s")
        names, limits = list(contenders), []
        for turn in range(SLICES):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                walls[name].append(_slice(warm[name], size, contenders[name][1]) / size)
            limits.append(_granted(2) / _granted(1))
            say(f"slice {turn + 1} of {SLICES}")
    for name, times in walls.items():
        yield _row(
            name, f"wall per episode, median of {SLICES} slices of {size}", 1000 * statistics.median(times), "ms"
        )
    yield from _ratios("local, 1 worker", "local, 2 workers", walls)
    yield from _spread("two bare processes", "CPU time together beside one", limits)
    if "ray, 2 workers" in walls:
        yield from _ratios("ray, 2 workers", "local, 2 workers", walls)


def _slice(executor: Executor, episodes: int, workers: int) -> float:
    """Wall seconds of so many episodes. Raises RuntimeError when one failed."""
    arm = {"name": "null"}
    jobs = [EpisodeJob(index, arm, str(MESSAGES), index, {"suite": "bench_null"}) for index in range(episodes)]
    begun = time.perf_counter()
    results = list(executor.run(jobs, null_episode, workers=workers))
    took = time.perf_counter() - begun
    if failed := [result.record.get("reason") for result in results if result.record["status"] == "infrastructure"]:
        raise RuntimeError(f"{executor.name}: {failed[0]}")
    return took


def _granted(processes: int) -> float:
    """CPU seconds that so many processes, which do nothing else, get together in half a second."""
    spinning = [
        subprocess.Popen([sys.executable, "-c", _SPIN], stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    return sum(float(process.communicate()[0]) for process in spinning)


def _ratios(one: str, other: str, walls: dict[str, list[float]]) -> Iterator[dict[str, object]]:
    pairs = zip(walls[one], walls[other], strict=True)
    yield from _spread(one, f"wall beside {other}", [a / b for a, b in pairs])


def _spread(contender: str, metric: str, ratios: list[float]) -> Iterator[dict[str, object]]:
    low, high = median_interval(ratios)
    for part, value in (("median", statistics.median(ratios)), ("95 % from", low), ("95 % to", high)):
        yield _row(contender, f"{metric}: {part}", value, "times")


def _row(contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    row: dict[str, object] = {"bench": "scaling", "case": "null episodes in turns", "contender": contender}
    return row | {"metric": metric, "value": round(value, 3), "unit": unit}
