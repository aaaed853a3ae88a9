"""Success over a ladder of budgets, with bands. Every rung is a run of its own: a longer run cut short is another episode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import NotComparableError
from .episodes import EpisodeRow, RunData, keep_once, policies_of, require_one_digest
from .intervals import Interval, wilson
from .resampling import FEW_CLUSTERS, RESAMPLES, flips_of
from .summary import success_at_budget

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_CLUSTERS = 6
"""Under this number no band exists."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One rung; ``budget`` in tokens per episode."""

    budget: int
    success: float
    pointwise: Interval
    """95 % for this rung alone."""
    band: Interval
    """95 % for all rungs of the arm at once."""
    tokens: float | None
    """Spent on the mean episode; None where nobody told."""
    overspend: float
    """Tokens over the budget, averaged over the episodes that went over it."""
    violations: int
    """Of all episodes, those too that nobody could grade and those of tasks that are left out of the success."""


@dataclass(frozen=True, slots=True)
class SuccessCurve:
    """One arm over the ladder, on the same tasks in every rung."""

    arm: str
    tasks: int
    clusters: int
    points: tuple[CurvePoint, ...]
    method: str
    """Of the simultaneous band; each pointwise interval names its own."""


def rungs_of(runs: Sequence[RunData]) -> dict[int, list[EpisodeRow]]:
    """Budget -> episodes, by the budgets of the runs' arms.

    Raises NotComparableError for mixed suites or splits, for an arm without a budget, for arms that differ in more
    than their budget, and for an episode that ended otherwise in another run of the same budget.
    """
    policies_of(runs)
    rungs: dict[int, list[EpisodeRow]] = {}
    settings: dict[str, dict[str, object]] = {}
    seen: dict[tuple[int, str, str, int], EpisodeRow] = {}
    for run in runs:
        for what in ("suite", "suite_digest", "split", "level"):
            if getattr(run, what) != getattr(runs[0], what):
                raise NotComparableError(f"{run.path} has another {what} than {runs[0].path}", "compare one suite")
        for name, arm in run.arms.items():
            rest = {key: value for key, value in arm.items() if key != "budget"}
            if settings.setdefault(name, rest) != rest:
                raise NotComparableError(
                    f"the arm {name!r} differs in more than its budget in {run.path}", "name arms apart"
                )
        for row in run.rows:
            budget = run.arms.get(row.arm, {}).get("budget")
            if not isinstance(budget, int) or budget < 1:
                raise NotComparableError(f"{run.path} does not tell the budget of {row.arm!r}", "run it again")
            if keep_once(seen, (budget, row.arm, row.task_id, row.seed), row):
                rungs.setdefault(budget, []).append(row)
    return dict(sorted(rungs.items()))


def success_curves(
    rungs: Mapping[int, Iterable[EpisodeRow]], arms: Sequence[str], *, seed: int = 0
) -> tuple[SuccessCurve, ...]:
    """Curves of the arms, seeds averaged inside a task.

    Bands are ``estimate +- q * error`` with the quantile q of the largest studentised deviation over the rungs, from
    clusters drawn again (the same ones in every rung), or under 30 clusters from residuals whose signs flip by cluster.
    A rung where all tasks ended alike has no such error; its band is Wilson's at 1 - 0.05 / rungs. A task that
    infrastructure failed in one rung is left out of all. Raises NotComparableError when the rungs of an arm are not over
    the same tasks.
    """
    held = {budget: list(rows) for budget, rows in sorted(rungs.items())}
    require_one_digest(row for rows in held.values() for row in rows)
    return tuple(_curve(held, arm, seed) for arm in arms)


def _curve(held: Mapping[int, list[EpisodeRow]], arm: str, seed: int) -> SuccessCurve:
    import numpy as np

    met = {budget: {row.task_id for row in rows if row.arm == arm} for budget, rows in held.items()}
    for budget, found in met.items():
        if found != met[next(iter(met))] or not found:
            raise NotComparableError(
                f"{arm!r} has other tasks at a budget of {budget} than at {next(iter(held))}",
                "run every rung on the same tasks",
            )
    tasks = sorted(
        set.intersection(*({r.task_id for r in rows if r.arm == arm and r.judged} for rows in held.values()))
    )
    if not tasks:
        raise NotComparableError(f"no task of {arm!r} was judged in every rung", "run more episodes")
    kept = frozenset(tasks)
    whole = success_at_budget(held, [arm])[arm]
    held = {budget: [row for row in rows if row.arm == arm and row.task_id in kept] for budget, rows in held.items()}
    by_rung = [_by_task(rows) for rows in held.values()]
    clusters = list(dict.fromkeys(by_rung[0][task][1] for task in tasks))
    place = {name: index for index, name in enumerate(clusters)}
    sums, sizes = np.zeros((len(clusters), len(held))), np.zeros(len(clusters))
    for task in tasks:
        index = place[by_rung[0][task][1]]
        sizes[index] += 1
        sums[index] += [found[task][0] for found in by_rung]
    centre = sums.sum(axis=0) / sizes.sum()
    half, method = _half_widths(sums, sizes, centre, seed)
    points = []
    summaries = success_at_budget(held, [arm])[arm]
    for number, (budget, summary) in enumerate(summaries.items()):
        success = float(centre[number])
        if half is None:
            band = Interval(0.0, 1.0, 0.95, method, bounded=False)
        elif half[number] > 0:
            low, high = max(0.0, success - half[number]), min(1.0, success + half[number])
            band = Interval(low, high, 0.95, method)
        else:
            band = wilson(success * len(tasks), len(tasks), 1 - 0.05 / len(held))
        safety = whole[budget].safety
        points.append(
            CurvePoint(
                budget,
                success,
                summary.interval,
                band,
                summary.tokens,
                safety.mean_overspend if safety else 0.0,
                safety.violations if safety else 0,
            )
        )
    return SuccessCurve(arm, len(tasks), len(clusters), tuple(points), method)


def _half_widths(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], centre: NDArray[np.float64], seed: int
) -> tuple[list[float] | None, str]:
    import numpy as np

    clusters = len(sizes)
    if clusters < LEAST_CLUSTERS:
        return None, f"{clusters} clusters: too few for a band"
    if clusters < FEW_CLUSTERS:
        residuals = sums - sizes[:, None] * centre
        deviations = (1.0 - 2.0 * flips_of(clusters, seed)) @ residuals / sizes.sum()
        method = f"simultaneous, wild bootstrap by sign flips of {clusters} clusters"
    else:
        drawn = np.random.default_rng(seed).integers(0, clusters, (RESAMPLES, clusters))
        deviations = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)[:, None] - centre
        method = f"simultaneous, bootstrap over {clusters} clusters"
    errors = deviations.std(axis=0)
    known = errors > 1e-12
    if not known.any():
        return [0.0] * len(errors), method
    largest = np.abs(deviations[:, known] / errors[known]).max(axis=1)
    return [float(e * np.quantile(largest, 0.95)) if k else 0.0 for e, k in zip(errors, known, strict=True)], method


def _by_task(rows: Iterable[EpisodeRow]) -> dict[str, tuple[float, str]]:
    """Task -> (success averaged over judged seeds, cluster)."""
    found: dict[str, list[EpisodeRow]] = {}
    for row in rows:
        if row.judged:
            found.setdefault(row.task_id, []).append(row)
    return {task: (sum(r.success for r in group) / len(group), group[0].cluster) for task, group in found.items()}
