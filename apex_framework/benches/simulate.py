"""Deterministic simulation: how many steps were checked, how often each guarantee broke (the limit is never), how
often each fault struck, and after how many seeds each planted bug was caught.

``--seeds`` runs of ``--steps`` callbacks under faults each (and some more until everything has finished), from seed
``--seed`` on, half of them with lane ``fifo`` and half with ``drr_wred``, in ``-n`` processes. Ctrl-C reports what has
been done so far.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from typing import Any

SEEDS, STEPS = 10_000, 200
LANES = ("fifo", "drr_wred")
CHUNK = 50
PLANTED_SEEDS = 2000


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``simulate``."""
    from ..testing.faults import FAULTS
    from ..testing.invariants import INVARIANTS
    from ..testing.outcome import Outcome

    seeds = int(getattr(args, "seeds", None) or SEEDS)
    steps = int(getattr(args, "steps", None) or STEPS)
    first = int(getattr(args, "seed", None) or 0)
    processes = int(getattr(args, "n", None) or os.cpu_count() or 1)
    say = getattr(args, "say", None) or (lambda text: None)
    started = time.perf_counter()
    total, interrupted = Outcome(), False
    chunks = [
        (LANES[i % 2], at, min(CHUNK, first + seeds - at), steps)
        for i, at in enumerate(range(first, first + seeds, CHUNK))
    ]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_deaf) as pool:
        futures = {pool.submit(_chunk, *chunk): chunk for chunk in chunks}
        try:
            for outcome in _finished(futures, say, seeds):
                total.add(outcome)
        except KeyboardInterrupt:
            interrupted = True
            pool.shutdown(wait=False, cancel_futures=True)
        elapsed = time.perf_counter() - started
        case = f"{total.seeds:,} seeds" + (", interrupted" if interrupted else "")
        yield _row(case, "checked steps", total.steps, "steps")
        yield _row(case, "speed", round(total.steps / elapsed), "steps/s")
        yield _row(case, "time", round(elapsed, 1), "s")
        for kind in INVARIANTS:
            yield _row(case, kind, total.violations[kind], "violations")
        for name in ("lives", "switches", "committed", "cancelled", "sent", "acked", "dead", "migrated", "events"):
            yield _row(case, name, getattr(total, name), "times")
        for reason, times in sorted(total.aborted.items()):
            yield _row(case, f"aborted: {reason}", times, "switches")
        for fault in FAULTS:
            yield _row("fault" if total.faults[fault] else "fault, never struck", fault, total.faults[fault], "times")
        for example in total.examples:
            yield _row("example", example, 1, "violations")
        if not interrupted:
            yield from _planted(pool)


def _finished(futures: dict[Future[Any], Any], say: Any, seeds: int) -> Iterator[Any]:
    """Outcomes as they come, the process telling how far it is."""
    open_, done, last = set(futures), 0, time.perf_counter()
    while open_:
        ready, open_ = wait(open_, timeout=1.0, return_when=FIRST_COMPLETED)
        for future in ready:
            outcome = future.result()
            done += outcome.seeds
            yield outcome
        if time.perf_counter() - last > 5:
            last = time.perf_counter()
            say(f"{done:,} of {seeds:,} seeds")


def _chunk(lane: str, seed: int, seeds: int, steps: int) -> Any:
    from ..testing.simulation import simulate

    return simulate(lanes=_lane(lane), seeds=seeds, seed=seed, steps=steps)


def _deaf() -> None:
    """Ctrl-C reaches every process of the group: this one finishes its chunk, and the first one decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _lane(name: str) -> Any:
    from ..plugins import load_plugins

    return load_plugins().catalog.make("lane", name)


def _planted(pool: ProcessPoolExecutor) -> Iterator[dict[str, object]]:
    from ..testing.planted.bugs import BUGS

    for bug, caught in zip(BUGS, pool.map(_hunt, range(len(BUGS))), strict=True):
        yield _row(f"planted: {bug.name}", caught[0] or "not caught", caught[1], "seeds")


def _hunt(number: int) -> tuple[str, int]:
    from ..testing.planted import hunt
    from ..testing.planted.bugs import BUGS

    caught = hunt(BUGS[number], seeds=PLANTED_SEEDS)
    return (caught.invariant, caught.seeds) if caught is not None else ("", PLANTED_SEEDS)


def _row(case: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "simulate", "case": case, "contender": "apex", "metric": metric, "value": value, "unit": unit}
