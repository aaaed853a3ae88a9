"""Bench ``attacks``: the whole catalogue of a hostile model, on every topology and seed, and what came of it.

``args.seeds`` is the number of seeds per topology, ``args.seed`` the first. A finding is an effect outside the workspace, a change
where a call was refused, a code that the attack must not meet, a secret that was shown, or a success that nobody earned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from time import perf_counter
from typing import Any

SEEDS = 1


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``attacks``: attacks, calls, findings and seconds per topology; calls per code over all."""
    from ..testing.attack_range import TOPOLOGIES, prove

    seeds, first = int(getattr(args, "seeds", None) or SEEDS), int(getattr(args, "seed", None) or 0)
    codes: Counter[str] = Counter()
    for topology in TOPOLOGIES:
        begun, attacks, calls, findings = perf_counter(), 0, 0, 0
        found: list[tuple[int, str]] = []
        for seed in range(first, first + seeds):
            outcome = prove(topology, seed)
            attacks, calls, findings = (
                attacks + outcome.attacks,
                calls + outcome.calls,
                findings + len(outcome.findings),
            )
            codes += outcome.codes
            found += [(seed, finding) for finding in outcome.findings]
        yield _row(topology, "attacks", attacks, "")
        yield _row(topology, "calls", calls, "")
        yield _row(topology, "findings", findings, "")
        for seed, finding in found:
            yield _row(topology, f"seed of the finding: {finding}", seed, "")
        yield _row(topology, "duration", round(perf_counter() - begun, 2), "s")
    for code, count in sorted(codes.items()):
        yield _row("all", code, count, "calls")


def _row(case: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "attacks", "case": case, "contender": "apex", "metric": metric, "value": value, "unit": unit}
