"""Epsilon-greedy choice with seeded tie-breaks and exact propensities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from apex_framework.errors import ConfigError


@dataclass(frozen=True, slots=True)
class LinearDecay:
    """Epsilon from ``start`` to ``end`` over the first ``decisions`` decisions, then constant."""

    start: float = 0.2
    end: float = 0.05
    decisions: int = 5_000

    def __post_init__(self) -> None:
        if not (0.0 <= self.end <= 1.0 and 0.0 <= self.start <= 1.0 and self.decisions > 0):
            raise ConfigError("epsilon must be in [0, 1] and its decay must take at least one decision")

    def at(self, decision: int) -> float:
        """Epsilon of the given decision, counted from 0."""
        if decision >= self.decisions:
            return self.end
        return self.start + (self.end - self.start) * decision / self.decisions


def epsilon_greedy(scores: Mapping[str, float], epsilon: float, random: Random) -> tuple[str, float]:
    """An action and its propensity: epsilon/K of exploring plus, for the greedy ones, their share of the rest."""
    best = max(scores.values())
    greedy = [a for a, s in scores.items() if s == best]
    if epsilon > 0.0 and random.random() < epsilon:
        action = random.choice(tuple(scores))
    else:
        action = greedy[0] if len(greedy) == 1 else random.choice(greedy)
    share = (1.0 - epsilon) / len(greedy) if action in greedy else 0.0
    return action, epsilon / len(scores) + share
