"""Interval of a share, such as an arm's success, over few clusters of tasks."""

from __future__ import annotations

from collections.abc import Sequence

from .intervals import Interval, wilson
from .resampling import all_alike, mean_error


def share_interval(values: Sequence[float], clusters: Sequence[str], *, confidence: float = 0.95) -> Interval:
    """Clopper-Pearson's interval at the effective number of tasks (Korn and Graubard, Survey Methodology 24, 1998).

    ``values`` are one per task, from 0 to 1. So many independent tasks as have the same cluster-robust standard error are
    what counts, never more than there are, and fewer yet the fewer the clusters (Student's t). Wilson's interval where all
    values are equal; the whole scale, ``bounded`` False, for one cluster of several. Raises ValueError for no values.
    """
    from scipy.stats import beta, t

    n, groups = len(values), len(set(clusters))
    if n < 2 or all_alike(values):
        return wilson(sum(values), n, confidence)
    if groups < 2:
        return Interval(0.0, 1.0, confidence, "one cluster: no bound", bounded=False)
    share, error, tail = sum(values) / n, mean_error(values, clusters), (1 - confidence) / 2
    independent = share * (1 - share) / error**2 if error else float(n)
    fewer = float(t.ppf(tail, n - 1) / t.ppf(tail, groups - 1)) ** 2
    effective = min(float(n), independent * fewer)
    solved = share * effective
    low, high = beta.ppf(tail, solved, effective - solved + 1), beta.ppf(1 - tail, solved + 1, effective - solved)
    return Interval(float(low), float(high), confidence, f"Clopper-Pearson at {effective:.1f} effective tasks")
