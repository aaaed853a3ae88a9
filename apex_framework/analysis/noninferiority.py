"""Non-inferiority: is an arm worse than another by less than a margin, and could so many tasks have shown it?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from .intervals import Interval, newcombe_of_counts
from .lift import Pairing, estimate_lift
from .power import POWER, margin_tasks
from .verdict import points


class Certainty(StrEnum):
    """What a run shows about a margin."""

    NON_INFERIOR = "NON-INFERIOR"
    INFERIOR = "INFERIOR"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_CERTIFIABLE = "NOT CERTIFIABLE AT THIS N"
    """Undecided, and even two equal arms would mostly have been left undecided by so few tasks."""


@dataclass(frozen=True, slots=True)
class NonInferiority:
    """All rates are shares; ``bound`` is the one-sided lower bound at ``1 - alpha``."""

    word: Certainty
    arm: str
    against: str
    margin: float
    alpha: float
    estimate: float
    bound: float
    tasks: int
    clusters: int
    tasks_needed: int | None
    """Tasks with which equal arms are certified with 80 % power, at the observed spread, and where nothing differed, with
    which they are while nothing does; None when the clusters are too few for any bound."""
    method: str
    sentence: str


def non_inferiority(pairing: Pairing, margin: float, *, alpha: float = 0.05, seed: int = 0) -> NonInferiority:
    """Judge one pairing. Raises ValueError for a margin or alpha that is none, NotComparableError without judged pairs.

    Tasks needed come from the interval's own width, so they hold for these clusters and seeds per task.
    """
    if not 0.0 < margin < 1.0 or not 0.0 < alpha < 0.5:
        raise ValueError("a margin must be in (0, 1) and alpha in (0, 0.5)")
    lift = estimate_lift(pairing, seed=seed, confidence=1 - 2 * alpha)
    interval = lift.interval
    needed = None
    if interval.bounded:
        solved = sum(task.ours for task in pairing.tasks) / lift.tasks
        needed = _needed(interval, lift.tasks, margin, alpha) if lift.discordance else _alike(solved, margin, alpha)
    if interval.low > -margin:
        word = Certainty.NON_INFERIOR
    elif interval.high < -margin:
        word = Certainty.INFERIOR
    elif needed is None or lift.tasks < needed:
        word = Certainty.NOT_CERTIFIABLE
    else:
        word = Certainty.INCONCLUSIVE
    kind = "of this spread" if lift.discordance else "on which the arms agree like here"
    least = f" about {needed:,} tasks {kind} would do" if needed and word is Certainty.NOT_CERTIFIABLE else ""
    least = least if interval.bounded else f" {lift.clusters} clusters are too few for any bound"
    sentence = (
        f"{word}: {lift.arm} against {lift.against}, margin {100 * margin:g} pp: lower bound {points(interval.low)} "
        f"(one-sided {100 * (1 - alpha):g} %) over {lift.tasks} tasks;{least}"
    ).rstrip(";")
    return NonInferiority(
        word,
        lift.arm,
        lift.against,
        margin,
        alpha,
        lift.estimate,
        interval.low,
        lift.tasks,
        lift.clusters,
        needed,
        f"one-sided {100 * (1 - alpha):g} % bound, {interval.method}",
        sentence,
    )


def _alike(solved: float, margin: float, alpha: float) -> int:
    """Tasks of which both arms solve the same ones, this share, so many that Newcombe's bound is within the margin."""
    low, high = 0, 1
    while not _within(high, solved, margin, alpha):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _within(middle, solved, margin, alpha) else (middle, high)
    return high


def _within(tasks: int, solved: float, margin: float, alpha: float) -> bool:
    count = round(solved * tasks)
    return newcombe_of_counts(tasks, count, count, count, 1 - 2 * alpha).low > -margin


def _needed(interval: Interval, tasks: int, margin: float, alpha: float) -> int:
    """An interval's half width is z standard errors, and these shrink with the root of the number of tasks."""
    from scipy.stats import norm

    error = (interval.high - interval.low) / (2 * float(norm.ppf(1 - alpha)))
    # Clusters can make the variance per task larger than that of any single difference, which is at most 1.
    return ceil(margin_tasks(margin, 1.0, alpha=alpha, power=POWER) * error**2 * tasks)
