"""Which of several runs are read as one, and which are the same arms at other budgets."""

from __future__ import annotations

from collections.abc import Sequence

from .curves import rungs_of
from .episodes import RunData


def apart_by_budget(runs: Sequence[RunData]) -> tuple[list[RunData], list[RunData]]:
    """The runs that are read as one, and those that have an arm of the first one at another budget.

    Raises NotComparableError where such arms differ in more than their budget.
    """
    budgets = {name: arm.get("budget") for name, arm in runs[0].arms.items()} if runs else {}
    other = [run for run in runs if any(run.arms[n].get("budget") != b for n, b in budgets.items() if n in run.arms)]
    if other:
        rungs_of(runs)
    places = {id(run) for run in other}
    return [run for run in runs if id(run) not in places], other
