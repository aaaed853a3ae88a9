"""P²: one quantile of a stream in five numbers.

After R. Jain and I. Chlamtac, *The P² Algorithm for Dynamic Calculation of Quantiles and Histograms Without Storing
Observations*, Communications of the ACM 28 (1985) 1076-1085. Written from the paper.
"""

from __future__ import annotations

from math import isfinite


class P2:
    """An estimate of the ``share`` quantile; exact up to five values, constant time and memory after that.

    There is no bound on its error for arbitrary streams, and it cannot be merged: it serves gauges that are looked at
    while something runs. Whatever is reported comes from buckets, digests or the values themselves.
    """

    __slots__ = ("_desired", "_heights", "_places", "_share", "_steps", "count")

    def __init__(self, share: float) -> None:
        if not 0 < share < 1:
            raise ValueError(f"{share} is not between 0 and 1")
        self._share = share
        self._heights: list[float] = []
        self._places = [1, 2, 3, 4, 5]
        self._desired = [1.0, 1 + 2 * share, 1 + 4 * share, 3 + 2 * share, 5.0]
        self._steps = (0.0, share / 2, share, (1 + share) / 2, 1.0)
        self.count = 0
        """Number of values so far."""

    def add(self, value: float) -> None:
        """Take a value. Raises ValueError unless it is finite."""
        if not isfinite(value):
            raise ValueError(f"{value} is not finite")
        self.count += 1
        heights, places = self._heights, self._places
        if self.count <= 5:
            heights.append(value)
            heights.sort()
            return
        if value < heights[0]:
            heights[0] = value
            cell = 0
        elif value >= heights[4]:
            heights[4] = value
            cell = 3
        else:
            cell = next(i for i in range(4) if value < heights[i + 1])
        for i in range(cell + 1, 5):
            places[i] += 1
        for i, step in enumerate(self._steps):
            self._desired[i] += step
        for i in (1, 2, 3):
            gap = self._desired[i] - places[i]
            if (gap >= 1 and places[i + 1] - places[i] > 1) or (gap <= -1 and places[i - 1] - places[i] < -1):
                self._move(i, 1 if gap > 0 else -1)

    @property
    def value(self) -> float:
        """The estimate. Raises ValueError when there were no values."""
        if not self.count:
            raise ValueError("no values")
        if self.count <= 5:
            return self._heights[min(self.count - 1, max(0, -int(-self._share * self.count // 1) - 1))]
        return self._heights[2]

    def _move(self, i: int, step: int) -> None:
        """Shift the i-th marker by one place, its height along a parabola through its neighbours, or a line."""
        n, q = self._places, self._heights
        parabola = q[i] + step / (n[i + 1] - n[i - 1]) * (
            (n[i] - n[i - 1] + step) * (q[i + 1] - q[i]) / (n[i + 1] - n[i])
            + (n[i + 1] - n[i] - step) * (q[i] - q[i - 1]) / (n[i] - n[i - 1])
        )
        if q[i - 1] < parabola < q[i + 1]:
            q[i] = parabola
        else:
            q[i] += step * (q[i + step] - q[i]) / (n[i + step] - n[i])
        n[i] += step
