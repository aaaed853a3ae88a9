"""Intervals for proportions: Clopper-Pearson, Wilson, and Newcombe's for the difference of paired ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt


@dataclass(frozen=True, slots=True)
class Interval:
    """Two-sided interval. Its ends are one-sided bounds at ``(1 + confidence) / 2``: 97.5 % for the usual 95 %."""

    low: float
    high: float
    confidence: float
    method: str
    bounded: bool = True
    """False when the data bear no bound at this confidence: then the ends are those of the scale."""


def clopper_pearson_upper(violations: int, trials: int, confidence: float = 0.95) -> float:
    """Exact one-sided upper bound on a rate (Clopper and Pearson 1934): 0 of 300 gives 0.00994."""
    from scipy.stats import beta

    if not 0 <= violations <= trials or trials < 1:
        raise ValueError(f"{violations} of {trials} is no proportion")
    return 1.0 if violations == trials else float(beta.ppf(confidence, violations + 1, trials - violations))


def wilson(successes: float, trials: float, confidence: float = 0.95) -> Interval:
    """Score interval of a proportion (Wilson 1927); counts may be fractional (means over seeds).

    Raises ValueError for no trials and for impossible counts.
    """
    from scipy.stats import norm

    if not 0 <= successes <= trials or not 0 < trials < inf:
        raise ValueError(f"{successes} of {trials} is no proportion")
    z = float(norm.ppf((1 + confidence) / 2))
    p = successes / trials
    centre = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    return Interval(max(0.0, centre - half), min(1.0, centre + half), confidence, "Wilson")


def newcombe_paired(ours: Sequence[float], theirs: Sequence[float], confidence: float = 0.95) -> Interval:
    """Difference of paired proportions, method 10 of Newcombe, Statistics in Medicine 17 (1998) 2635-2650.

    It has positive width also when all pairs agree, where resampling has none. Raises ValueError for no pairs.
    """
    both = sum(x * y for x, y in zip(ours, theirs, strict=True))
    return newcombe_of_counts(len(ours), sum(ours), sum(theirs), both, confidence)


def newcombe_of_counts(n: int, ours: float, theirs: float, both: float, confidence: float = 0.95) -> Interval:
    """The same of n pairs from how many each and both succeeded on."""
    only_ours, only_theirs = ours - both, theirs - both
    neither = n - both - only_ours - only_theirs
    first, second = wilson(ours, n, confidence), wilson(theirs, n, confidence)
    p1, p2 = ours / n, theirs / n
    margins = (both + only_ours) * (only_theirs + neither) * (both + only_theirs) * (only_ours + neither)
    phi = 0.0
    if margins > 0:
        cross = both * neither - only_ours * only_theirs
        phi = (max(0.0, cross - n / 2) if cross > 0 else cross) / sqrt(margins)

    def half(a: float, b: float) -> float:
        return sqrt(max(0.0, a * a - 2 * phi * a * b + b * b))

    low = p1 - p2 - half(p1 - first.low, second.high - p2)
    high = p1 - p2 + half(first.high - p1, p2 - second.low)
    return Interval(max(-1.0, low), min(1.0, high), confidence, "Newcombe")
