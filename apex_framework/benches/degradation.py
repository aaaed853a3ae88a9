"""How a team degrades: prolonged saturation, a slow controller, handlers longer than a switch may wait, a late backend.

Each is a curve in virtual time. ``limit`` is an ideal bus: the same messages and handling times, one unbounded queue in
front of every agent, nothing to relay, nothing to switch. No cliff means, at every point of every curve: what is handled
per second stays above ``FLOOR`` of that limit. The last row of a curve is its worst point and whether that is kept.

* **Prolonged saturation** (profile S): load 0.3 to 1.5.
* **Slow controller** (profile S): it thinks for up to 10 s while everybody goes on; or it holds the event loop for up to
  20 ms after every message, which holds up the ideal bus as well.
* **Quiesce timeout** (profile N at load 0.6, a deadline of 50 ms): handlers with a median of 5 to 400 ms, with ``drain``,
  where ever more switches are aborted, and with ``migrate``, where none is.
* **Backend timeout** (profile N): a backend is late in up to 40 % of the tries, which is noticed after 200 ms. The router
  backs off; the ideal bus tries again at once. Five late tries in a row are a dead letter.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .fates import HANDLED, losses
from .profiles import Profile, from_args, quantile
from .setting import Setting, ideal
from .stress import LANE, trials
from .trial import Parts, Tally

OPTIONS = frozenset({"seed", "seeds", "seconds", "profile_file"})
SEEDS = 3
FLOOR = 0.8
LOADS = (0.3, 0.5, 0.7, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5)
DECIDE_MS = (0, 10, 100, 1_000, 10_000)
BLOCKED_MS = (0, 1, 2, 5, 10, 15, 20)
MEDIANS_MS = (5, 12, 25, 50, 100, 200, 400)
LATE = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4)
LATE_MS = 200.0

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a curve: where it is, what the work allows there, and what was measured."""

    at: str
    limit: float
    tallies: Sequence[Tally]

    @property
    def handled(self) -> float:
        """Messages handled per second while they were offered."""
        return statistics.fmean(tally.handled_in_time / tally.offered_s for tally in self.tallies)

    @property
    def share(self) -> float:
        """Of the limit."""
        return self.handled / self.limit if self.limit else 1.0


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``degradation``. ``args.seeds`` (3) trials per point, ``args.seconds`` of offering in each."""
    stress, normal = from_args(args, "S"), from_args(args, "N")
    first, many = int(getattr(args, "seed", None) or 0), int(getattr(args, "seeds", None) or SEEDS)
    bench = _Curves(stress, normal, range(first, first + many), getattr(args, "seconds", None))
    for name, profile, points in (
        ("prolonged saturation", stress, bench.saturation()),
        ("slow controller, thinking", stress, bench.thinking()),
        ("slow controller, blocking", stress, bench.blocking()),
        ("quiesce timeout, drain", normal, bench.quiesce("drain")),
        ("quiesce timeout, migrate", normal, bench.quiesce("migrate")),
        ("backend timeout", normal, bench.backend()),
    ):
        worst = None
        for point in points:
            yield from _rows(name, profile, point)
            worst = point if worst is None or point.share < worst.share else worst
        assert worst is not None
        row = _row(name, profile, "apex", "worst share of the limit", round(worst.share, 4), "")
        yield row | {"at": worst.at, "criterion": f">= {FLOOR}", "met": worst.share >= FLOOR}


class _Curves:
    def __init__(self, stress: Profile, normal: Profile, seeds: range, seconds: float | None) -> None:
        self._stress, self._normal = Setting(stress, seconds=seconds), Setting(normal, seconds=seconds)
        self._seeds, self._parts = seeds, Parts.built_in(LANE)

    def _point(self, at: str, setting: Setting) -> Point:
        limits = [ideal(replace(setting, seed=seed)) for seed in self._seeds]
        return Point(at, statistics.fmean(limits), trials(setting, self._parts, self._seeds))

    def saturation(self) -> Iterator[Point]:
        for load in LOADS:
            yield self._point(f"load {load}", replace(self._stress, load=load))

    def thinking(self) -> Iterator[Point]:
        for ms in DECIDE_MS:
            yield self._point(f"{ms:,} ms a decision", replace(self._stress, decide_ms=ms))

    def blocking(self) -> Iterator[Point]:
        for ms in BLOCKED_MS:
            yield self._point(f"{ms} ms a message", replace(self._stress, blocked_ms=ms))

    def quiesce(self, on_busy: str) -> Iterator[Point]:
        for median in MEDIANS_MS:
            profile = replace(self._normal.profile, handler_ms={"p50": float(median), "p95": 4.0 * median})
            # Offered for 500 medians, so that there are as many messages at every point.
            seconds = (self._normal.seconds or self._normal.profile.seconds) * median / 120
            setting = replace(self._normal, profile=profile, load=0.6, seconds=seconds, on_busy=on_busy)
            yield self._point(f"median {median} ms", setting)

    def backend(self) -> Iterator[Point]:
        for late in LATE:
            yield self._point(f"late {late:.0%}", replace(self._normal, timeout_share=late, timeout_ms=LATE_MS))


def _rows(name: str, profile: Profile, point: Point) -> Iterator[Row]:
    case = f"{name}, {point.at}"
    tallies = point.tallies
    counted = [losses(tally.fates.by_id.values()) for tally in tallies]
    finals = [losses(tally.fates.of("final")) for tally in tallies]
    late = [f.ended - f.born for tally in tallies for f in tally.fates.of("final") if f.end == HANDLED]
    aborts: Counter[str] = sum((tally.aborts for tally in tallies), Counter())
    switched = sum(tally.committed for tally in tallies)
    yield _row(case, profile, "limit", "handled", round(point.limit, 3), "messages/s")
    yield _row(case, profile, "apex", "handled", round(point.handled, 3), "messages/s")
    yield _row(case, profile, "apex", "share of the limit", round(point.share, 4), "")
    yield _row(case, profile, "apex", "loss, mean", round(statistics.fmean(loss.share for loss in counted), 6), "")
    lost = sum(loss.refused + loss.dead for loss in finals)
    yield _row(case, profile, "apex", "lost of class final", lost, "messages")
    yield _row(case, profile, "apex", "latency of final, p95", round(1000 * quantile(late, 0.95), 1), "ms")
    yield _row(case, profile, "apex", "switches committed", switched, "switches")
    yield _row(case, profile, "apex", "switches aborted", sum(aborts.values()), "switches") | {"reasons": dict(aborts)}


def _row(case: str, profile: Profile, contender: str, metric: str, value: float, unit: str) -> Row:
    row: Row = {"bench": "degradation", "case": case, "contender": contender, "metric": metric}
    return row | {"value": value, "unit": unit} | profile.stamp
