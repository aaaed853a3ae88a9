"""What an arm did: success, cost, safety; whole and per family; and success over a ladder of budgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .episodes import EpisodeRow
from .intervals import Interval, clopper_pearson_upper
from .resampling import FEW_CLUSTERS, all_alike, mean_interval
from .shares import share_interval


@dataclass(frozen=True, slots=True)
class BudgetSafety:
    """Episodes that spent more tokens than they were given (a denial is no violation)."""

    episodes: int
    violations: int
    upper: float
    """One-sided 95 % Clopper-Pearson bound on the rate."""
    mean_overspend: float
    """Tokens over the budget, averaged over the violations; 0 without any."""


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm over all of its episodes; means are over judged episodes."""

    arm: str
    episodes: int
    """All that were run, those that failed for infrastructure included."""
    judged: int
    infrastructure: int
    tasks: int
    success: float
    """Share of tasks solved, seeds averaged inside a task; 0 when nothing was judged."""
    interval: Interval
    success_of_all: float
    """The same with infrastructure failures counted as failures."""
    tokens: float | None
    """None, as for steps, unless all judged episodes tell theirs."""
    tokens_of_successes: float | None
    tokens_of_failures: float | None
    steps: float | None
    switches: float
    aborted: float
    denied: float
    overfit: float
    """Share of judged episodes that pass the visible tests and fail the hidden ones."""
    message_share: float
    """Share of tokens that came from other agents' messages."""
    safety: BudgetSafety | None


def summarize_arm(rows: Iterable[EpisodeRow], arm: str, *, budget: int | None = None, seed: int = 0) -> ArmSummary:
    """Summary of one arm; ``budget`` in tokens per episode."""
    rows = [row for row in rows if row.arm == arm]
    judged = [row for row in rows if row.judged]
    by_task = _success_by_task(judged)
    success = _mean([value for value, _ in by_task.values()])
    spent = [(row.tokens, row.success) for row in judged if row.tokens is not None]
    steps = [row.steps for row in judged if row.steps is not None]
    tokens = sum(count for count, _ in spent)
    told = len(spent) == len(judged)
    return ArmSummary(
        arm=arm,
        episodes=len(rows),
        judged=len(judged),
        infrastructure=len(rows) - len(judged),
        tasks=len(by_task),
        success=success,
        interval=_success_interval(by_task, seed),
        success_of_all=_mean([value for value, _ in _success_by_task(rows).values()]),
        tokens=_mean([count for count, _ in spent]) if told else None,
        tokens_of_successes=_mean([count for count, success in spent if success]) if told else None,
        tokens_of_failures=_mean([count for count, success in spent if not success]) if told else None,
        steps=_mean(steps) if len(steps) == len(judged) else None,
        switches=_mean([row.switches for row in judged]),
        aborted=_mean([row.aborted for row in judged]),
        denied=_mean([row.denied for row in judged]),
        overfit=_mean([row.overfit for row in judged]),
        message_share=sum(row.message_tokens for row in judged) / tokens if tokens else 0.0,
        safety=budget_safety([row for row in rows if row.watched(budget)], budget)
        if budget and judged and told
        else None,
    )


def budget_safety(rows: Sequence[EpisodeRow], budget: int) -> BudgetSafety:
    """Violations of a token budget, with the bound that certifies their rarity and what a violation costs."""
    over = [row.tokens - budget for row in rows if row.tokens is not None and row.tokens > budget]
    return BudgetSafety(len(rows), len(over), clopper_pearson_upper(len(over), len(rows)), _mean(over))


def summarize_families(rows: Iterable[EpisodeRow], arms: Sequence[str]) -> dict[str, dict[str, ArmSummary]]:
    """Family -> arm -> summary; families in alphabetical order, empty when the suite has none."""
    rows = list(rows)
    families = sorted({row.family for row in rows if row.family})
    return {f: {a: summarize_arm([r for r in rows if r.family == f], a) for a in arms} for f in families}


def success_at_budget(
    rungs: Mapping[int, Iterable[EpisodeRow]], arms: Sequence[str]
) -> dict[str, dict[int, ArmSummary]]:
    """Arm -> budget -> summary. Every rung is a run of its own: a longer run cut short is not the same episode."""
    held = {budget: list(rows) for budget, rows in sorted(rungs.items())}
    return {arm: {b: summarize_arm(rows, arm, budget=b) for b, rows in held.items()} for arm in arms}


def oracle_success(rows: Iterable[EpisodeRow], statics: Sequence[str]) -> float | None:
    """Share of (task, seed) pairs that any of the statics solves; None without two statics."""
    solved: dict[tuple[str, int], bool] = {}
    for row in rows:
        if row.arm in statics and row.judged:
            key = (row.task_id, row.seed)
            solved[key] = solved.get(key, False) or row.success
    return _mean([*solved.values()]) if solved and len(statics) > 1 else None


def repeated_success(rows: Iterable[EpisodeRow], arm: str, repeats: int = 3) -> float | None:
    """Share of tasks that one arm solves in any of its first runs; None when no task has so many seeds."""
    attempts: dict[str, list[EpisodeRow]] = {}
    for row in rows:
        if row.arm == arm and row.judged:
            attempts.setdefault(row.task_id, []).append(row)
    tried = [sorted(group, key=lambda row: row.seed)[:repeats] for group in attempts.values() if len(group) >= repeats]
    return _mean([any(row.success for row in group) for group in tried]) if tried else None


def _success_by_task(rows: Iterable[EpisodeRow]) -> dict[str, tuple[float, str]]:
    """Task -> (success averaged over seeds, cluster). An infrastructure failure is no success."""
    found: dict[str, list[EpisodeRow]] = {}
    for row in rows:
        found.setdefault(row.task_id, []).append(row)
    return {
        task: (_mean([row.success and row.judged for row in group]), group[0].cluster)
        for task, group in sorted(found.items())
    }


def _success_interval(by_task: Mapping[str, tuple[float, str]], seed: int) -> Interval:
    values = [value for value, _ in by_task.values()]
    if not values:
        return Interval(0.0, 1.0, 0.95, "no episodes", bounded=False)
    clusters = [cluster for _, cluster in by_task.values()]
    if all_alike(values) or len(set(clusters)) < FEW_CLUSTERS:
        return share_interval(values, clusters)
    interval = mean_interval(values, clusters, seed=seed)
    return replace(interval, low=max(0.0, interval.low), high=min(1.0, interval.high))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
