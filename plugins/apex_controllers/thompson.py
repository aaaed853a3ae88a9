"""Linear Thompson sampling: the ridge of bandit_v1, explored by draws (Agrawal and Goyal, ICML 2013)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import erf, exp, inf, pi, sqrt
from typing import Any, ClassVar

from apex_framework.errors import ConfigError
from apex_framework.interfaces import Checkpoint

from .bandit_v1 import BanditV1
from .exploration import epsilon_greedy

_STEP, _LEAST_STEP = 0.2, 0.008
"""Distance of the points of a propensity's quadrature, in standard deviations of the narrowest variable, and its least."""


class Thompson(BanditV1):
    """While it learns, each action's weights are drawn from N(w, scale^2 inv(A)); frozen, the largest ``w.x`` is taken.

    Only ``w.x`` matters for the choice, so that is what is drawn: N(w.x, scale^2 x' inv(A) x), actions independent.
    """

    kind: ClassVar[str] = "thompson"

    def __init__(self, policy: Any = None, *, scale: float = 0.2, **options: Any) -> None:
        """Options but for ``scale`` are those of bandit_v1. Raises ConfigError."""
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0.0 <= scale < inf:
            raise ConfigError(f"thompson: scale must be a finite number of at least 0, not {scale!r}")
        self._scale = float(scale)
        super().__init__(policy, **{"epsilon_start": 0.0, "epsilon_end": 0.0, **options})

    def save(self) -> Checkpoint:
        """As bandit_v1, with ``scale``."""
        saved = super().save()
        return Checkpoint(saved.arrays, {**saved.meta, "scale": self._scale})

    def _choose(self, scores: Mapping[str, float], features: Sequence[float], epsilon: float) -> tuple[str, float]:
        if self._context.frozen or not self._scale:
            return epsilon_greedy(scores, epsilon, self._random)
        ridge, actions = self._state.ridge, self._state.actions
        widths = {name: self._scale * sqrt(max(0.0, ridge.spread(actions.index(name), features))) for name in scores}
        if not all(widths.values()):  # a vector of zeros has nothing to draw
            return epsilon_greedy(scores, epsilon, self._random)
        drawn = {name: self._random.gauss(score, widths[name]) for name, score in scores.items()}
        action = max(drawn, key=drawn.__getitem__)
        return action, largest_probability(action, scores, widths)


def largest_probability(action: str, means: Mapping[str, float], widths: Mapping[str, float]) -> float:
    """Chance that this one of independent normal variables is the largest, to about 1e-9; less where widths differ over 25-fold."""
    mean, width = means[action], widths[action]
    step = max(_LEAST_STEP, _STEP * min(1.0, min(widths.values()) / width))
    nodes = int(8.0 / step)
    total = 0.0
    for node in range(-nodes, nodes + 1):
        z = node * step
        density = exp(-0.5 * z * z)
        for other, centre in means.items():
            if other != action:
                density *= 0.5 * (1.0 + erf((mean + width * z - centre) / (widths[other] * sqrt(2.0))))
        total += density
    return min(1.0, total * step / sqrt(2.0 * pi))
