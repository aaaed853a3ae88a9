"""Power of a paired comparison, before it is run: McNemar mid-p, two-sided 5 %, given the discordance.

Discordance is the share of tasks that exactly one of two arms solves; between real systems 5 to 15 points apart its
median is 0.21. Tasks count as independent; clusters make the true power lower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALPHA = 0.05
POWER = 0.8
MOST = 20_000
"""Tasks beyond which none are asked for."""


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """What so many tasks can show."""

    tasks: int
    discordance: float
    detectable_lift: float | None
    """Smallest true lift found with a chance of 80 %; None when even the largest possible one is not."""
    power_at_10pp: float


def paired_power(tasks: int, lift: float, discordance: float, alpha: float = ALPHA) -> float:
    """Chance that the test rejects when the true lift is ``lift``. Raises ValueError for impossible values."""
    if not 0.0 < discordance <= 1.0 or tasks < 1:
        raise ValueError("discordance must be in (0, 1] and there must be a task")
    if not abs(lift) <= discordance:
        raise ValueError("a lift cannot exceed the discordance")
    return _power(tasks, discordance, alpha)(lift)


def detectable_lift(tasks: int, discordance: float, power: float = POWER, alpha: float = ALPHA) -> float | None:
    """Smallest lift with at least this power, to 1e-4; None when there is none."""
    if not 0.0 < discordance <= 1.0 or tasks < 1:
        return None
    power_at = _power(tasks, discordance, alpha)
    low, high = 0.0, discordance
    if power_at(high) < power:
        return None
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if power_at(middle) >= power else (middle, high)
    return high


def detectable_by_error(error: float, groups: int, power: float = POWER, alpha: float = ALPHA) -> float:
    """The same for any mean whose standard error is ``error``, of so many independent groups (two or more); Student's t."""
    from scipy.stats import t

    return float(t.ppf(1 - alpha / 2, groups - 1) + t.ppf(power, groups - 1)) * error


def tasks_needed(lift: float, discordance: float, power: float = POWER, most: int = MOST) -> int | None:
    """Fewest tasks (to 1 %) that show this lift with this power; None when ``most`` are not enough."""
    if not 0.0 < lift <= discordance:
        return None
    from scipy.stats import norm

    # The normal approximation is within a few percent; the exact power corrects it.
    z = float(norm.ppf(1 - ALPHA / 2) + norm.ppf(power))
    tasks = max(8, int(z * z * discordance / lift**2 * 0.9))
    while tasks <= most:
        if paired_power(tasks, lift, discordance) >= power:
            return tasks
        tasks = max(tasks + 1, int(tasks * 1.01))
    return None


def plan_power(tasks: int, discordance: float = 0.21, alpha: float = ALPHA) -> PowerPlan:
    """What is printed before a run; ``alpha`` is two-sided."""
    at_10 = paired_power(tasks, min(0.10, discordance), discordance, alpha)
    return PowerPlan(tasks, discordance, detectable_lift(tasks, discordance, alpha=alpha), at_10)


def effective_tasks(tasks: int, repeats: float, icc: float) -> float:
    """Independent values that ``tasks`` groups of ``repeats`` are worth, at an intraclass correlation ``icc``.

    Groups are tasks with several seeds, or clusters with several tasks: 100 of 5 at 0.5 are worth 167. Raises
    ValueError for impossible values.
    """
    if tasks < 1 or not 1.0 <= repeats < float("inf") or not 0.0 <= icc <= 1.0:
        raise ValueError("there must be a task, one repeat or more, and icc in [0, 1]")
    return tasks * repeats / (1 + (repeats - 1) * icc)


def margin_tasks(margin: float, variance: float, *, alpha: float = ALPHA, power: float = POWER) -> float:
    """Tasks with which two equal arms are certified as non-inferior with this power, one-sided at ``alpha``.

    ``variance`` is that of a task's difference: the discordance, for one seed per task. A margin of 2 pp at a
    discordance of 0.1 takes 1,546. Raises ValueError for impossible values.
    """
    from scipy.stats import norm

    if not 0.0 < margin < 1.0 or not 0.0 <= variance <= 1.0 or not 0.0 < alpha < 0.5 or not 0.0 < power < 1.0:
        raise ValueError("margin, alpha and power must be in (0, 1), alpha under 0.5, variance in [0, 1]")
    z = float(norm.ppf(1 - alpha) + norm.ppf(power))
    return z * z * variance / margin**2


def sequential_power(
    looks: Sequence[int],
    lift: float,
    discordance: float,
    *,
    alpha: float = 0.025,
    draws: int = 2_000,
    seed: int = 0,
) -> dict[int, float]:
    """Look -> share of simulated runs, stopped at the first evidence, that have stopped by then; one-sided e-process.

    Tasks are independent, with one seed each. Raises ValueError for impossible values.
    """
    import numpy as np

    from .sequential import e_value_of_counts

    if not abs(lift) <= discordance or not 0.0 < discordance <= 1.0 or draws < 1:
        raise ValueError("discordance must be in (0, 1], and a lift cannot exceed it")
    if not looks or any(b <= a for a, b in zip([0, *looks], looks, strict=False)):
        raise ValueError("looks must be increasing numbers of tasks")
    rng, steps = np.random.default_rng(seed), np.diff([0, *looks])
    chances = [(discordance + lift) / 2, (discordance - lift) / 2, 1 - discordance]
    counts = np.cumsum([rng.multinomial(step, chances, size=draws)[:, :2] for step in steps], axis=0)
    stopped, found = np.zeros(draws, dtype=bool), {}
    for look, seen in zip(looks, counts, strict=True):
        stopped |= np.array([e_value_of_counts(int(w), int(l_)) >= 1 / alpha for w, l_ in seen])
        found[look] = float(stopped.mean())
    return found


@lru_cache(maxsize=16)
def _critical_wins(most: int, alpha: float) -> NDArray[np.int64]:
    """For m = 0..most discordant pairs: fewest wins at which the mid-p is at most alpha; m + 1 when never."""
    import numpy as np
    from scipy.stats import binom

    m = np.arange(1, most + 1)
    # The mid-p of w wins is sf(w) + sf(w - 1): where sf reaches alpha / 2 it may be too large yet, one further it is not.
    wins = np.maximum(np.asarray(binom.isf(alpha / 2, m, 0.5)).astype(np.int64), (m + 1) // 2)
    wins += 2 * binom.sf(wins, m, 0.5) + binom.pmf(wins, m, 0.5) > alpha
    critical = np.concatenate([[1], np.minimum(wins, m + 1)])
    critical.setflags(write=False)  # it is handed out again
    return critical


def _power(tasks: int, discordance: float, alpha: float) -> Callable[[float], float]:
    """Lift -> power."""
    import numpy as np
    from scipy.stats import binom

    m = np.arange(tasks + 1)
    chance = binom.pmf(m, tasks, discordance)
    m = m[chance > 1e-18]  # the others add nothing, and of 100,000 tasks they are nearly all
    chance = chance[m]
    # Critical numbers do not depend on the tasks, so one table serves a search over these.
    critical = _critical_wins(1 << tasks.bit_length(), alpha)[m]

    def at(lift: float) -> float:
        p = (discordance + lift) / (2 * discordance)
        rejected = binom.sf(critical - 1, m, p) + binom.cdf(m - critical, m, p)
        return float((chance * rejected).sum())

    return at
