"""Differences and ratios of measurements that took turns."""

from __future__ import annotations

import math
from collections.abc import Sequence


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The median's 95 % interval: the order statistics between which it is, whatever the distribution.

    Of fewer than six values no two are so far apart; then it is the least and the greatest.
    """
    ordered, n, below, rank = sorted(values), len(values), 0.0, 0
    while rank < n // 2 and (below := below + math.comb(n, rank) / 2**n) <= 0.025:
        rank += 1
    rank = max(0, rank - 1)
    return ordered[rank], ordered[n - 1 - rank]


def at(values: Sequence[float], percent: int) -> float:
    """A percentile by nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent * len(ordered) / 100) - 1)]
