"""LinUCB: the ridge of bandit_v1, explored by confidence bounds (Li et al., WWW 2010, disjoint linear models)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, sqrt
from typing import Any, ClassVar

from apex_framework.errors import ConfigError
from apex_framework.interfaces import Checkpoint

from .bandit_v1 import BanditV1
from .exploration import epsilon_greedy


class LinUCB(BanditV1):
    """While it learns, it takes the largest ``w.x + alpha * sqrt(x' inv(A) x)``; frozen, the largest ``w.x``.

    Its choice is deterministic but for ties, so what it explores has no propensity below that of a tie: its logs
    cannot be used for off-policy values.
    """

    kind: ClassVar[str] = "linucb"

    def __init__(self, policy: Any = None, *, alpha: float = 0.5, **options: Any) -> None:
        """Options but for ``alpha`` are those of bandit_v1. Raises ConfigError."""
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0.0 <= alpha < inf:
            raise ConfigError(f"linucb: alpha must be a finite number of at least 0, not {alpha!r}")
        self._alpha = float(alpha)
        super().__init__(policy, **{"epsilon_start": 0.0, "epsilon_end": 0.0, **options})

    def save(self) -> Checkpoint:
        """As bandit_v1, with ``alpha``."""
        saved = super().save()
        return Checkpoint(saved.arrays, {**saved.meta, "alpha": self._alpha})

    def _choose(self, scores: Mapping[str, float], features: Sequence[float], epsilon: float) -> tuple[str, float]:
        if self._context.frozen or not self._alpha:
            return epsilon_greedy(scores, epsilon, self._random)
        ridge, actions = self._state.ridge, self._state.actions
        bounds = {
            name: score + self._alpha * sqrt(max(0.0, ridge.spread(actions.index(name), features)))
            for name, score in scores.items()
        }
        return epsilon_greedy(bounds, epsilon, self._random)
