"""A merging t-digest: quantiles of a stream in bounded memory, best at the tails; digests of parts can be merged.

After T. Dunning and O. Ertl, *Computing Extremely Accurate Quantiles Using t-Digests*, arXiv:1902.04023 (2019),
algorithm 1 with the scale function k1. Written from the paper.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import asin, isfinite, pi, sin

Centroid = tuple[float, float]
"""Mean and weight."""


class TDigest:
    """Keeps at most about ``compression`` centroids of the values that it was given.

    A centroid may span at most one unit of k1(q) = compression / (2 pi) * asin(2 q - 1), so near the share q it holds at
    most about 2 pi sqrt(q (1 - q)) / compression of all values: the width that bounds the error in rank of values that
    come in one batch. What was merged can overlap; the bound that the tests hold it to is twice that width, plus one
    value. The smallest and the largest value are exact. The result depends on the order of values, and on nothing else.
    """

    __slots__ = ("_buffer", "_centroids", "_compression", "_limit", "largest", "smallest")

    def __init__(self, compression: float = 200.0) -> None:
        if not compression >= 20:
            raise ValueError(f"a compression of {compression} is less than 20")
        self._compression = compression
        self._limit = int(5 * compression)
        self._centroids: list[Centroid] = []
        self._buffer: list[Centroid] = []
        self.smallest, self.largest = float("inf"), float("-inf")

    @property
    def count(self) -> float:
        """Weight of all values."""
        return sum(w for _, w in self._centroids) + sum(w for _, w in self._buffer)

    @property
    def centroids(self) -> tuple[Centroid, ...]:
        """Means and weights, means increasing."""
        self._compress()
        return tuple(self._centroids)

    def add(self, value: float, weight: float = 1.0) -> None:
        """Take a value. Raises ValueError unless it is finite and its weight positive."""
        if not (isfinite(value) and weight > 0 and isfinite(weight)):
            raise ValueError(f"a digest takes finite values, not {value} with weight {weight}")
        self._take((value, weight))
        self.smallest, self.largest = min(self.smallest, value), max(self.largest, value)

    def merge(self, centroids: Iterable[Centroid], smallest: float, largest: float) -> None:
        """Take another digest: its centroids and its extremes."""
        for centroid in centroids:
            self._take(centroid)
            self.smallest, self.largest = min(self.smallest, smallest), max(self.largest, largest)

    def quantile(self, share: float) -> float:
        """The value below which ``share`` of the weight lies. Raises ValueError when empty, or outside of 0 to 1.

        Between the middles of two centroids it is interpolated; a centroid of weight 1 is a value, and exact.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"{share} is no share")
        self._compress()
        if not self._centroids:
            raise ValueError("no values")
        total = sum(weight for _, weight in self._centroids)
        rank = share * total
        seen = 0.0
        left_rank, left = 0.0, self.smallest
        for mean, weight in self._centroids:
            if weight == 1.0 and seen <= rank <= seen + 1.0:
                return mean
            middle = seen + weight / 2
            if rank < middle:
                return _between(rank, left_rank, left, middle, mean)
            seen += weight
            left_rank, left = (seen, mean) if weight == 1.0 else (middle, mean)
        return _between(rank, left_rank, left, total, self.largest)

    def _take(self, centroid: Centroid) -> None:
        self._buffer.append(centroid)
        if len(self._buffer) >= self._limit:
            self._compress()

    def _compress(self) -> None:
        """Merge neighbours as long as their union spans at most one unit of k."""
        if not self._buffer:
            return
        waiting = sorted([*self._centroids, *self._buffer])
        self._buffer.clear()
        total = sum(weight for _, weight in waiting)
        merged: list[Centroid] = []
        mean, weight = waiting[0]
        before = 0.0
        limit = total * self._reach(0.0)
        for other, more in waiting[1:]:
            if before + weight + more <= limit:
                weight += more
                mean += (other - mean) * more / weight
            else:
                merged.append((mean, weight))
                before += weight
                limit = total * self._reach(before / total)
                mean, weight = other, more
        merged.append((mean, weight))
        self._centroids = merged

    def _reach(self, share: float) -> float:
        """The share at which a centroid that begins at ``share`` has to end: one unit of k1 further."""
        angle = asin(2 * min(1.0, share) - 1) + 2 * pi / self._compression
        return (sin(angle) + 1) / 2 if angle < pi / 2 else 1.0


def _between(rank: float, left_rank: float, left: float, right_rank: float, right: float) -> float:
    if right_rank <= left_rank:
        return right
    value = left + (right - left) * (rank - left_rank) / (right_rank - left_rank)
    return min(max(value, left), right)
