"""Paired shift of a cost (tokens, time) between two arms: Hodges-Lehmann, with Wilcoxon's signed ranks. Never for successes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import NotComparableError
from .episodes import EpisodeRow
from .intervals import Interval
from .mcnemar import holm
from .resampling import cluster_sums, flips_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXACT = 50
"""Up to this number of tasks the null distribution of the signed-rank sum is counted out, above it it is normal."""
HALVINGS = 26
"""The ends of a clustered interval are found to 2e-8 of the range of differences."""
QUANTITIES: Mapping[str, str] = {"tokens": "tokens", "wall_ms": "ms"}
"""What can be compared -> its unit; ``wall_ms`` is the machine's time and depends on its load."""


@dataclass(frozen=True, slots=True)
class Shift:
    """By how much ``arm`` costs more than ``against`` on a task, seeds averaged; negative is cheaper."""

    arm: str
    against: str
    quantity: str
    unit: str
    estimate: float
    """Hodges-Lehmann: median of all pairwise means of the differences."""
    interval: Interval | None
    """95 %; None when under six clusters, or a single task, bear no bound."""
    mean: float
    p: float
    """Two-sided; of no shift."""
    p_holm: float
    """Holm's, over the shifts that were asked for together."""
    tasks: int
    clusters: int
    method: str


def cost_shifts(
    rows: Iterable[EpisodeRow], pairs: Sequence[tuple[str, str]], *, quantities: Sequence[str] = (), seed: int = 0
) -> tuple[Shift, ...]:
    """Shifts of every quantity for every (arm, against), over the (task, seed) pairs that both were judged on.

    A quantity that the artifacts lack is left out. Raises NotComparableError for a pair without a common task.
    """
    from dataclasses import replace

    by_arm: dict[str, dict[tuple[str, int], EpisodeRow]] = {}
    for row in rows:
        if row.judged:
            by_arm.setdefault(row.arm, {})[row.task_id, row.seed] = row
    found = []
    for arm, against in pairs:
        ours, theirs = by_arm.get(arm, {}), by_arm.get(against, {})
        keys = sorted(ours.keys() & theirs.keys())
        if not keys:
            raise NotComparableError(f"no task on which both {arm!r} and {against!r} were judged", "run more episodes")
        for quantity in quantities or tuple(QUANTITIES):
            value: Callable[[EpisodeRow], float | None] = _getter(quantity)
            spent = [(key[0], ours[key].cluster, value(ours[key]), value(theirs[key])) for key in keys]
            by_task: dict[str, tuple[str, list[float]]] = {}
            for task, cluster, one, other in spent:
                if one is not None and other is not None:
                    by_task.setdefault(task, (cluster, []))[1].append(one - other)
            if by_task:
                differences = [sum(d) / len(d) for _, d in by_task.values()]
                shift = paired_shift(differences, [cluster for cluster, _ in by_task.values()], seed=seed)
                unit = QUANTITIES.get(quantity, "")
                found.append(replace(shift, arm=arm, against=against, quantity=quantity, unit=unit))
    adjusted = holm({str(i): shift.p for i, shift in enumerate(found)})
    return tuple(replace(shift, p_holm=adjusted[str(i)]) for i, shift in enumerate(found))


def paired_shift(
    differences: Sequence[float], clusters: Sequence[str] = (), *, seed: int = 0, confidence: float = 0.95
) -> Shift:
    """Shift of paired differences, one per task.

    Without clusters, or with one task in each: Wilcoxon's signed-rank test and the interval of pairwise means that
    belongs to it (Hollander and Wolfe 1973, 3.2). With clusters: whole clusters flip their signs, and the interval
    holds the shifts that the flipped signed-rank sums do not reject. Raises ValueError for none or for NaN.
    """
    import numpy as np

    d = np.asarray(differences, dtype=float)
    names = list(clusters) or [str(i) for i in range(len(d))]
    if len(d) == 0:
        raise ValueError("no differences")
    _, sizes = cluster_sums(list(d), names)
    estimate, p, interval = hodges_lehmann(d), 1.0, None
    method = "all differences are equal: no test, no interval"
    if len(np.unique(d)) == 1 and d[0]:
        # Of all signs that the differences could have had, these and their opposites are the only ones so far out.
        p = 2.0 ** (1 - len(sizes))
        method = f"all differences are equal: exact sign flips of {len(sizes)} {'tasks' if len(sizes) == len(d) else 'clusters'}, no interval"
    elif len(np.unique(d)) > 1:
        if len(sizes) == len(d):
            p, interval, method = _by_task(d, confidence)
        else:
            p, interval, method = _by_cluster(d, names, seed, confidence)
    return Shift("", "", "", "", estimate, interval, float(d.mean()), p, p, len(d), len(sizes), method)


def hodges_lehmann(differences: Sequence[float] | NDArray[np.float64]) -> float:
    """Median of the means of all pairs, each with itself too. Raises ValueError for none."""
    import numpy as np

    if not len(differences):
        raise ValueError("no differences")
    return float(np.median(_pair_means(np.asarray(differences, dtype=float))))


def _by_task(d: NDArray[np.float64], confidence: float) -> tuple[float, Interval | None, str]:
    import numpy as np
    from scipy.stats import norm, wilcoxon

    n = len(d)
    nonzero = d[d != 0]
    exact = len(nonzero) <= EXACT and len(np.unique(np.abs(nonzero))) == len(nonzero)
    # Written out, because what "auto" means has changed between versions of scipy.
    p = float(wilcoxon(nonzero, method="exact" if exact else "approx").pvalue) if len(nonzero) else 1.0
    alpha = (1 - confidence) / 2
    if n <= EXACT:
        counts = np.ones(1)
        for rank in range(1, n + 1):
            counts = np.concatenate([counts, np.zeros(rank)]) + np.concatenate([np.zeros(rank), counts])
        out = int((np.cumsum(counts) <= alpha * 2.0**n).sum())
    else:
        out = int(n * (n + 1) / 4 - float(norm.ppf(1 - alpha)) * (n * (n + 1) * (2 * n + 1) / 24) ** 0.5)
    kind = "exact" if exact else "normal approximation"
    method = f"Wilcoxon signed-rank over {n} tasks, zeros dropped, {kind}; interval of pairwise means"
    if out < 1:
        return p, None, f"{method}: too few tasks for a bound"
    means = np.sort(_pair_means(d))
    return p, Interval(float(means[out - 1]), float(means[-out]), confidence, "Hodges-Lehmann, pairwise means"), method


def _by_cluster(
    d: NDArray[np.float64], names: Sequence[str], seed: int, confidence: float
) -> tuple[float, Interval | None, str]:
    import numpy as np
    from scipy.stats import rankdata

    place = {name: index for index, name in enumerate(dict.fromkeys(names))}
    index = np.array([place[name] for name in names])
    signs = 1.0 - 2.0 * flips_of(len(place), seed)
    method = f"signed ranks, sign flips of {len(place)} clusters"

    def sums(shift: float) -> tuple[float, NDArray[np.float64]]:
        moved = d - shift
        scored = np.sign(moved) * rankdata(np.abs(moved))
        per_cluster = np.bincount(index, weights=scored, minlength=len(place))
        return float(per_cluster.sum()), signs @ per_cluster

    def tail(shift: float, side: float) -> float:
        observed, flipped = sums(shift)
        return float((1 + (side * flipped >= side * observed - 1e-9).sum()) / (1 + len(flipped)))

    observed, flipped = sums(0.0)
    p = float((1 + (np.abs(flipped) >= abs(observed) - 1e-9).sum()) / (1 + len(flipped)))
    alpha = (1 - confidence) / 2
    if 1 / (1 + len(signs)) > alpha:
        return p, None, f"{method}: too few for a bound"

    def end(outer: float, inner: float, side: float) -> float:
        """Between a shift that is rejected and one that is not."""
        for _ in range(HALVINGS):
            middle = (outer + inner) / 2
            outer, inner = (middle, inner) if tail(middle, side) <= alpha else (outer, middle)
        return inner

    centre, reach = hodges_lehmann(d), float(np.ptp(d)) + 1.0
    low, high = end(centre - reach, centre, 1.0), end(centre + reach, centre, -1.0)
    return p, Interval(low, high, confidence, f"Hodges-Lehmann, {method}"), method


def _pair_means(d: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    first, second = np.triu_indices(len(d))
    return (d[first] + d[second]) / 2


def _getter(quantity: str) -> Callable[[EpisodeRow], float | None]:
    if quantity not in QUANTITIES:
        raise ValueError(f"no quantity {quantity!r}; known: {', '.join(QUANTITIES)}")

    def value(row: EpisodeRow) -> float | None:
        found: float | None = getattr(row, quantity)
        return found

    return value
