"""Looks at a growing run that stay honest: a betting e-process, valid however often one looks and whenever one stops.

A player who bets a share of the capital on "the arm is better" at every task cannot expect to win when it is not. The
capital, averaged over shares that are fixed beforehand, is the e-value; by Ville's inequality it ever reaches 1/alpha
with a chance of at most alpha. On single wins and losses it is the beta-binomial mixture restricted to p > 1/2.

The lift weighs tasks, and clusters are what is drawn: a bet is on the sum of a cluster's differences, which has a mean of
at most 0 where the lift has, also when large clusters gain more or less than small ones. It is divided by the size of
the largest cluster, so that none can lose more than its stake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

from ..errors import NotComparableError
from .lift import PairedTask, Pairing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNITS = ("task", "cluster")
ALPHA = 0.025
"""One-sided, as the bounds of the verdict."""


class Bet(NamedTuple):
    """What is bet on at once: ``gain - weight * m`` has the mean 0 where the lift is m, and lies within 1 + abs(m)."""

    gain: float
    """Of a task, its difference; of a cluster, the sum of its tasks' over the tasks of the largest cluster planned."""
    weight: float
    """1, or its judged tasks over those of the largest."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look; ``e_value`` is what the capital of 1 has become."""

    planned: int
    """Tasks of the plan, from its first, that were looked at."""
    tasks: int
    """Of these, the ones that both arms were judged on."""
    bets: int
    """Tasks, or clusters of which no task is still to come."""
    e_value: float
    crossed: bool
    """Whether it has reached 1/alpha at this look or an earlier one."""


@dataclass(frozen=True, slots=True)
class Sequential:
    """Looks at one pair of arms. One-sided: it can show that ``arm`` is better, never that it is not."""

    arm: str
    against: str
    looks: tuple[Look, ...]
    not_reached: tuple[int, ...]
    """Looks that the run is too short for."""
    alpha: float
    unit: str
    method: str

    @property
    def better_at(self) -> int | None:
        """The first look with enough evidence."""
        return next((look.planned for look in self.looks if look.crossed), None)

    @property
    def sentence(self) -> str:
        """In words."""
        path = ", ".join(f"{look.planned}: {look.e_value:.3g}" for look in self.looks) or "none reached"
        end = f"better at {self.better_at}" if self.better_at else "not shown to be better so far"
        return f"{self.arm} against {self.against}: e-value by look {path} (needs {1 / self.alpha:g}): {end}"


def sequential_test(
    pairing: Pairing,
    order: Mapping[str, str],
    looks: Sequence[int],
    *,
    reached: int | None = None,
    alpha: float = ALPHA,
    unit: str = "cluster",
) -> Sequential:
    """E-values at the looks, which count tasks of the plan; ``order`` is task -> cluster, in the plan's order.

    ``reached`` is how many of them, from the first, have been run (all, when None).

    Bets on ``task`` take tasks as independent: where those of a cluster are alike, luck is called better more often than
    ``alpha`` says. Bets on ``cluster`` do not: the sum of a cluster's differences is one bet, made when the last of its
    tasks in ``order`` is in, so most of the evidence comes late unless the plan is ordered by cluster. In another order
    small clusters are complete first, and looks before the last are right only where lifts do not go with sizes. Where every cluster is one
    task the two are the same. Raises ValueError for looks that do not increase, NotComparableError for a task that is not in ``order``.
    """
    if not looks or any(b <= a for a, b in zip([0, *looks], looks, strict=False)) or not 0.0 < alpha < 1.0:
        raise ValueError("looks must be increasing numbers of tasks, and alpha in (0, 1)")
    if unit not in UNITS:
        raise ValueError(f"unit {unit!r}; known: {', '.join(UNITS)}")
    end = len(order) if reached is None else reached
    found: list[Look] = []
    for look in (n for n in looks if n <= end):
        seen, bets = bets_at(pairing, order, look, unit)
        value = e_value(bet.gain for bet in bets)
        crossed = value >= 1 / alpha or bool(found and found[-1].crossed)
        found.append(Look(look, seen, len(bets), value, crossed))
    method = f"one-sided betting e-process over {unit}s, shares uniform on (0, 1); valid at every look"
    assumed = (
        "tasks taken as independent" if unit == "task" else "clusters taken as independent, each weighs as its tasks"
    )
    return Sequential(
        pairing.arm,
        pairing.against,
        tuple(found),
        tuple(n for n in looks if n > end),
        alpha,
        unit,
        f"{method}; {assumed}",
    )


def bets_at(pairing: Pairing, order: Mapping[str, str], look: int, unit: str) -> tuple[int, list[Bet]]:
    """Tasks of the first ``look`` that both arms were judged on, and what is bet on at this look.

    Raises NotComparableError for a task that is not in ``order``.
    """
    judged = {task.task_id: task for task in pairing.tasks}
    if strange := sorted(judged.keys() - order.keys()):
        raise NotComparableError(f"task {strange[0]!r} is not in the plan", "compare runs with their own run.json")
    names = list(order)
    seen = [judged[task] for task in names[:look] if task in judged]
    if unit == "task":
        return len(seen), [Bet(t.ours - t.theirs, 1.0) for t in seen]
    return len(seen), _cluster_bets(seen, order, {order[task] for task in names[look:]})


def better_than_all(tests: Iterable[Sequential]) -> int | None:
    """The look at which every test has crossed (each at its own time): the intersection-union test. None when never."""
    found = [test.better_at for test in tests]
    return max(look for look in found if look is not None) if found and all(found) else None


def e_value(bets: Iterable[float]) -> float:
    """Capital after bets on outcomes in [-1, 1] whose means are at most 0 under the null. Raises ValueError outside."""
    import numpy as np

    x = np.asarray(list(bets), dtype=float)
    x = x[x != 0]
    if not (np.abs(x) <= 1.0).all():  # also for NaN
        raise ValueError("outcomes to bet on must be in [-1, 1]")
    # Gauss-Legendre is exact for the polynomial that the capital is in the share.
    nodes, weights = _legendre(len(x) // 2 + 1)
    shares = (nodes + 1) / 2
    capital = np.zeros(len(shares))
    for outcome, count in zip(*np.unique(x, return_counts=True), strict=True):
        capital += count * np.log1p(shares * outcome)
    top = float(capital.max())
    return exp(min(700.0, top + log(float((weights / 2 * np.exp(capital - top)).sum()))))


def e_value_of_counts(wins: int, losses: int) -> float:
    """The same for single wins and losses, in closed form: the mixture over a chance of winning uniform on (1/2, 1)."""
    from scipy.special import betainc, betaln

    n = wins + losses
    above = float(betainc(1 + losses, 1 + wins, 0.5))
    return exp(min(700.0, (n + 1) * log(2.0) + float(betaln(1 + wins, 1 + losses)) + log(above))) if above else 0.0


def e_value_two_sided(wins: int, losses: int) -> float:
    """Beta-binomial mixture over any chance of winning: 2^n B(1 + w, 1 + l), against equal arms."""
    from scipy.special import betaln

    return float(exp(min(700.0, (wins + losses) * log(2.0) + float(betaln(1 + wins, 1 + losses)))))


@lru_cache(maxsize=64)
def _legendre(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights: cubic in their number, and an interval asks for the same ones a hundred times."""
    import numpy as np

    nodes, weights = np.polynomial.legendre.leggauss(count)
    nodes.setflags(write=False)  # they are handed out again
    weights.setflags(write=False)
    return nodes, weights


def _cluster_bets(seen: Sequence[PairedTask], order: Mapping[str, str], unfinished: set[str]) -> list[Bet]:
    largest = max(Counter(order.values()).values(), default=1)
    clusters: dict[str, list[float]] = {}
    for task in seen:
        clusters.setdefault(order[task.task_id], []).append(task.ours - task.theirs)
    return [Bet(sum(d) / largest, len(d) / largest) for name, d in clusters.items() if name not in unfinished]
