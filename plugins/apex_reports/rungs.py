"""Runs of the same arms at several budgets: one of them is what a report is about, the others are rungs beside it."""

from __future__ import annotations

from collections.abc import Sequence

from apex_framework.analysis import Answer, RunData

from .cells import Table, percent
from .curve import ladders


def budgets_of(runs: Sequence[RunData]) -> list[int]:
    """Tokens an episode that the arms of these runs had, ascending."""
    return sorted({int(arm["budget"]) for run in runs for arm in run.arms.values() if arm.get("budget")})


def budget_told(answer: Answer) -> str:
    """Tokens an episode, each arm's where they differ; empty where no arm has a budget."""
    found = {arm.arm: answer.run.arms.get(arm.arm, {}).get("budget") for arm in answer.arms}
    known = {name: budget for name, budget in found.items() if isinstance(budget, int) and budget > 0}
    if not known:
        return ""
    if len(known) == len(found) and len(set(known.values())) == 1:
        return f"{next(iter(known.values())):,} tokens an episode"
    each = ", ".join(f"{name} {known[name]:,}" if name in known else f"{name} none" for name in found)
    return f"in tokens an episode: {each}"


def success_at_budget(answer: Answer, rungs: Sequence[RunData]) -> Table:
    """A column per budget; no rows without rungs."""
    found = ladders(answer, rungs) if rungs else []
    budgets = sorted({budget for ladder in found for budget in ladder.rungs})
    return Table(
        "Success@budget",
        ("arm", *(f"{budget:,}" for budget in budgets)),
        tuple(
            (
                ladder.name,
                *(
                    f"{percent(arm.success)} ({percent(arm.interval.low)} to {percent(arm.interval.high)})"
                    if (arm := ladder.rungs.get(budget))
                    else "-"
                    for budget in budgets
                ),
            )
            for ladder in found
        ),
        ("Tokens an episode, a run each; in brackets the 95 % interval, each for itself.",),
    )
