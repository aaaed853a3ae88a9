"""A histogram with fixed buckets: constant memory, mergeable, no sorting."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

LATENCY_MS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 5000.0)
"""Upper bounds for durations in milliseconds."""
TOKENS = (10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 20_000.0, 50_000.0, 100_000.0)
"""Upper bounds for token counts."""


class Histogram:
    """Counts per bucket; a value belongs to the first bucket whose upper bound is not below it."""

    __slots__ = ("bounds", "counts", "largest", "smallest", "total")

    def __init__(self, bounds: Sequence[float] = LATENCY_MS) -> None:
        if list(bounds) != sorted(set(bounds)) or not bounds:
            raise ValueError("bounds must be increasing")
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.smallest = self.largest = 0.0
        """Extremes of the values so far; 0 before the first."""

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self.counts)

    def add(self, value: float) -> None:
        """Take one value."""
        first = not any(self.counts)
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
        self.smallest = value if first else min(self.smallest, value)
        self.largest = value if first else max(self.largest, value)

    def merge(self, other: Histogram) -> None:
        """Take all values of another one. Raises ValueError when its buckets are others."""
        if other.bounds != self.bounds:
            raise ValueError("histograms with different buckets cannot be merged")
        if other.count:
            empty = not self.count
            self.smallest = other.smallest if empty else min(self.smallest, other.smallest)
            self.largest = other.largest if empty else max(self.largest, other.largest)
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def quantile(self, share: float) -> float:
        """Upper bound of the bucket that holds the quantile, at most the largest value; 0 when empty."""
        rank, seen = share * self.count, 0
        for bound, count in zip((*self.bounds, self.largest), self.counts, strict=True):
            seen += count
            if count and seen >= rank:
                return min(bound, self.largest)
        return 0.0

    def to_json(self) -> dict[str, Any]:
        """Bounds, counts and the usual figures."""
        return {
            "count": self.count,
            "mean": self.total / self.count if self.count else 0.0,
            "p50": self.quantile(0.5),
            "p95": self.quantile(0.95),
            "max": self.largest,
            "bounds": list(self.bounds),
            "counts": list(self.counts),
        }
