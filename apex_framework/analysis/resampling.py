"""Interval of a mean over clustered values: BCa bootstrap over clusters, or sign flips when clusters are few."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .intervals import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 10_000
FEW_CLUSTERS = 30
"""Below this number the bootstrap over clusters is too narrow and randomisation is used instead."""
ENUMERATED = 12
"""Up to this number of clusters all sign flips are used, above it ``RESAMPLES`` seeded ones."""


def all_alike(values: Iterable[float]) -> bool:
    """Whether values are equal but for what rounding leaves: 1 - 2/3 is not 1/3 to the last digit."""
    return len({round(value, 12) for value in values}) <= 1


def bears_bound(clusters: int, confidence: float) -> bool:
    """Whether so few clusters can bear a bound at all: all of them agree by chance once in 2^clusters."""
    return (1 - confidence) / 2 * 2.0**clusters >= 1


def cluster_sums(values: Sequence[float], clusters: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum and size of every cluster, in the order of first appearance. Raises ValueError for a value that is not finite."""
    import numpy as np

    if not np.isfinite(np.asarray(values, dtype=float)).all():
        raise ValueError("values must be finite numbers")
    place = {name: index for index, name in enumerate(dict.fromkeys(clusters))}
    sums, sizes = np.zeros(len(place)), np.zeros(len(place))
    for value, name in zip(values, clusters, strict=True):
        sums[place[name]] += value
        sizes[place[name]] += 1
    return sums, sizes


def mean_error(values: Sequence[float], clusters: Sequence[str]) -> float:
    """Standard error of the mean, robust to clusters (Liang and Zeger 1986): 0 where all of them have the same mean.

    With one value per cluster it is the usual one. Raises ValueError for under two clusters.
    """
    import numpy as np

    sums, sizes = cluster_sums(values, clusters)
    if len(sums) < 2:
        raise ValueError("a standard error needs two clusters")
    residuals = sums - sizes * (sums.sum() / sizes.sum())
    error = float(np.sqrt(len(sums) / (len(sums) - 1) * (residuals**2).sum()) / sizes.sum())
    return error if error > 1e-12 else 0.0


def mean_interval(
    values: Sequence[float], clusters: Sequence[str], *, seed: int = 0, confidence: float = 0.95
) -> Interval:
    """BCa over clusters; sign flips under 30 clusters.

    When the means of all clusters are equal, clusters tell nothing about uncertainty (every resample would give the
    same mean) and the values are resampled one by one, unless the clusters are too few for any bound: then there is none.
    Raises ValueError for values that are all equal, or not finite, or none.
    """
    sums, sizes = cluster_sums(values, clusters)
    if all_alike(values):
        raise ValueError("values that are all equal have no interval by resampling")
    if all_alike((sums / sizes).tolist()) and bears_bound(len(sums), confidence):
        alone = bca_interval(values, [str(i) for i in range(len(values))], seed=seed, confidence=confidence)
        return replace(alone, method=f"BCa over {len(values)} values; their {len(sums)} clusters do not differ")
    if len(sums) < FEW_CLUSTERS:
        return sign_flip_interval(values, clusters, seed=seed, confidence=confidence)
    return bca_interval(values, clusters, seed=seed, confidence=confidence)


def bca_interval(
    values: Sequence[float],
    clusters: Sequence[str],
    *,
    seed: int = 0,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """Bias-corrected and accelerated bootstrap (Efron 1987); whole clusters are drawn and left out.

    With one value per cluster it equals ``scipy.stats.bootstrap(..., method="BCa")`` for the same seed. Raises ValueError
    for under two clusters, and where the means of all are equal.
    """
    return _bca(*cluster_sums(values, clusters), seed=seed, confidence=confidence, resamples=resamples)


def ratio_interval(
    sums: Sequence[float], sizes: Sequence[float], *, seed: int = 0, confidence: float = 0.95
) -> Interval:
    """Interval of ``sum(sums) / sum(sizes)`` over clusters, which come with their sums: BCa, sign flips under 30.

    Clusters whose size is zero (no weight) say nothing and are left out. Raises ValueError for under two others.
    """
    import numpy as np

    top, bottom = np.asarray(sums, dtype=float), np.asarray(sizes, dtype=float)
    top, bottom = top[bottom > 0], bottom[bottom > 0]
    if len(top) < 2:
        raise ValueError("an interval needs two clusters")
    if all_alike((top / bottom).tolist()) or len(top) < FEW_CLUSTERS:
        return _flipped(top, bottom, seed=seed, confidence=confidence)
    return _bca(top, bottom, seed=seed, confidence=confidence, resamples=RESAMPLES)


def sign_flip_interval(
    values: Sequence[float], clusters: Sequence[str], *, seed: int = 0, confidence: float = 0.95
) -> Interval:
    """Means that a test by random sign flips of whole clusters does not reject.

    For a hypothetical mean m the residual sums of clusters flip signs; the one-sided p-value is the share of flips
    whose total is at least the observed one. A flip reaches it exactly when the mean over the flipped clusters is at
    most m, so the ends of the interval are quantiles of means over random sets of clusters (Hartigan 1969).
    With under 6 clusters no bound at 97.5 % exists and the interval is [-1, 1].
    """
    sums, sizes = cluster_sums(values, clusters)
    return _flipped(sums, sizes, seed=seed, confidence=confidence)


def sign_flip_p(values: Sequence[float], clusters: Sequence[str], *, seed: int = 0) -> float:
    """Two-sided p-value of mean zero by sign flips of whole clusters, the observed signs among them."""
    import numpy as np

    sums, _ = cluster_sums(values, clusters)
    totals = np.abs(sums.sum() - 2 * (flips_of(len(sums), seed) @ sums))
    return float((1 + (totals >= abs(sums.sum()) - 1e-12).sum()) / (1 + len(totals)))


def flips_of(clusters: int, seed: int) -> NDArray[Any]:
    """Which clusters flip, one row per draw, never none: all patterns up to ``ENUMERATED`` clusters, else seeded ones."""
    import numpy as np

    if clusters <= ENUMERATED:
        numbers = np.arange(1, 2**clusters)
        return ((numbers[:, None] >> np.arange(clusters)) & 1).astype(float)
    drawn = np.random.default_rng(seed).integers(0, 2, (RESAMPLES, clusters)).astype(float)
    return drawn[drawn.any(axis=1)]


def _bca(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], *, seed: int, confidence: float, resamples: int
) -> Interval:
    import numpy as np
    from scipy.stats import norm

    if all_alike((sums / sizes).tolist()):
        raise ValueError("a bootstrap over clusters needs two of them with different means")
    drawn = np.random.default_rng(seed).integers(0, len(sums), (resamples, len(sums)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    observed = sums.sum() / sizes.sum()
    below = ((means < observed).sum() + (means <= observed).sum()) / (2 * resamples)
    bias = norm.ppf(min(max(below, 0.5 / resamples), 1 - 0.5 / resamples))
    without = (sums.sum() - sums) / (sizes.sum() - sizes)
    spread = without.mean() - without
    acceleration = (spread**3).sum() / (6 * (spread**2).sum() ** 1.5)
    z = bias + norm.ppf([(1 - confidence) / 2, (1 + confidence) / 2])
    scale = 1 - acceleration * z  # not above 0 only at levels that no bootstrap resolves: then the outermost mean
    moved = np.where(scale > 0, bias + z / np.where(scale > 0, scale, 1), np.copysign(np.inf, z))
    low, high = np.quantile(means, norm.cdf(moved))
    return Interval(float(low), float(high), confidence, f"BCa over {len(sums)} clusters")


def _flipped(sums: NDArray[np.float64], sizes: NDArray[np.float64], *, seed: int, confidence: float) -> Interval:
    import numpy as np

    flips = flips_of(len(sums), seed)
    means = np.sort((flips @ sums) / (flips @ sizes))
    allowed = int((1 - confidence) / 2 * (len(means) + 1)) - 1
    method = f"sign flips of {len(sums)} clusters"
    if allowed < 0:
        return Interval(-1.0, 1.0, confidence, f"{method}: too few for a bound", bounded=False)
    return Interval(float(means[allowed]), float(means[-1 - allowed]), confidence, method)
