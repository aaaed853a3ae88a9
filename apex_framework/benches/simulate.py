"""Random switches under random traffic in virtual time: how many broke a guarantee (the limit is none).

``planted`` rows show that the checker sees: the same simulation with one known bug each, and how
often it was reported.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ..testing.faults import PLANTED
from ..testing.simulation import simulate

SWITCHES = 100_000
PLANTED_SWITCHES = 2_000
GUARANTEES = {
    "early": "N+1 dequeues while N waits",
    "reordered": "reordered pairs",
    "lost": "lost admitted messages",
    "phantom": "deliveries of what was never sent",
}


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``simulate``. ``args.switches`` is the number of switches, ``args.seed`` the first seed."""
    switches = int(getattr(args, "switches", None) or SWITCHES)
    seed = int(getattr(args, "seed", None) or 0)
    parts = _parts()
    started = time.perf_counter()
    outcome = simulate(switches, seed=seed, **parts)
    elapsed = time.perf_counter() - started
    case = f"{switches:,} switches"
    for kind, words in GUARANTEES.items():
        yield _row(case, words, outcome.violations[kind], "violations")
    yield _row(case, "counters that do not add up", outcome.unbalanced, "violations")
    for name in ("committed", "aborted", "cancelled"):
        yield _row(case, name, getattr(outcome, name), "switches")
    for name in ("sent", "delivered", "migrated"):
        yield _row(case, name, getattr(outcome, name), "messages")
    yield _row(case, "speed", round(switches / elapsed), "switches/s")
    for kind, bug in PLANTED.items():
        found = simulate(min(switches, PLANTED_SWITCHES), seed=seed, bug=bug, **parts).violations
        yield _row(f"planted: {bug.__name__}", GUARANTEES[kind], found[kind], "violations")


def _row(case: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "simulate", "case": case, "contender": "apex", "metric": metric, "value": value, "unit": unit}


def _parts() -> dict[str, Any]:
    from ..plugins import load_plugins

    catalog = load_plugins().catalog
    return {
        "topologies": {name: catalog.make("topology", name) for name in ("star", "chain", "flat")},
        "lanes": catalog.make("lane", "fifo"),
        "transport": catalog.make("transport", "inproc"),
    }
