"""Ridge regression per action, updated one row at a time (Sherman-Morrison), in float64.

Pure Python on purpose: for eight features a step costs microseconds, less than crossing into an array library, and
``math.fsum`` rounds correctly, so that the learned numbers are the same bits on every machine and Python version.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from operator import mul, sub


class RidgeActions:
    """For each action ``a``: A_a = lam*I + sum(x x'), b_a = sum(r x), w_a = inv(A_a) b_a.

    Equals scikit-learn's ``Ridge(alpha=lam, fit_intercept=False)`` on the same rows. ``weights[a]`` is w_a,
    ``sums[a]`` b_a, and ``inverses[a]`` the inverse of A_a row after row in one list.
    """

    __slots__ = ("_starts", "dimension", "inverses", "lam", "sums", "weights")

    def __init__(self, actions: int, dimension: int, lam: float = 1.0) -> None:
        if lam <= 0.0:
            raise ValueError("lam must be positive")
        self.lam = lam
        self.dimension = dimension
        self.weights = [[0.0] * dimension for _ in range(actions)]
        self.sums = [[0.0] * dimension for _ in range(actions)]
        start = [1.0 / lam if i == j else 0.0 for i in range(dimension) for j in range(dimension)]
        self.inverses = [list(start) for _ in range(actions)]
        self._starts = range(0, dimension * dimension, dimension)

    def scores(self, features: Sequence[float]) -> list[float]:
        """Predicted return of every action."""
        return [fsum(map(mul, w, features)) for w in self.weights]

    def spread(self, action: int, features: Sequence[float]) -> float:
        """``x' inv(A_a) x``: how little the action is known at these features."""
        inverse, d = self.inverses[action], self.dimension
        return fsum(
            x * fsum(map(mul, inverse[i : i + d], features)) for x, i in zip(features, self._starts, strict=True)
        )

    def update(self, action: int, features: Sequence[float], target: float) -> None:
        """Add one row to one action. Raises ValueError for a wrong number of features."""
        weights, inverse, d = self.weights[action], self.inverses[action], self.dimension
        if len(features) != d:
            raise ValueError(f"expected {d} features, not {len(features)}")
        ax = [fsum(map(mul, inverse[i : i + d], features)) for i in self._starts]
        scale = 1.0 + fsum(map(mul, features, ax))
        error = (target - fsum(map(mul, weights, features))) / scale
        self.sums[action] = [s + target * x for s, x in zip(self.sums[action], features, strict=True)]
        self.weights[action] = [w + error * a for w, a in zip(weights, ax, strict=True)]
        # Both factors carry the same root of the scale, so that the inverse stays exactly symmetric.
        root = sqrt(scale)
        half = [a / root for a in ax]
        self.inverses[action] = list(map(sub, inverse, [g * c for g in half for c in half]))
