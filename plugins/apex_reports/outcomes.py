"""Which arms solve the very same tasks, and how often the budget ended an episode."""

from __future__ import annotations

from collections.abc import Iterable

from apex_framework.analysis import EpisodeRow

BUDGET = "budget"
"""An episode whose reason or status names it ended for want of budget; agents word their reasons freely."""


def alike(arms: Iterable[str], rows: Iterable[EpisodeRow]) -> list[str]:
    """A sentence per group of ``arms`` with the same outcome in every episode, and one on all arms together."""
    outcomes: dict[str, dict[tuple[str, int], bool]] = {arm: {} for arm in arms}
    for row in rows:
        if row.judged:
            outcomes[row.arm][row.task_id, row.seed] = row.success
    outcomes = {arm: outcome for arm, outcome in outcomes.items() if outcome}
    groups: dict[frozenset[tuple[tuple[str, int], bool]], list[str]] = {}
    for arm, outcome in outcomes.items():
        groups.setdefault(frozenset(outcome.items()), []).append(arm)
    found = [
        f"{', '.join(names[:-1])} and {names[-1]} solve the same tasks in every episode."
        for names in groups.values()
        if len(names) > 1
    ]
    if len(groups) < 2:
        return found
    first, *others = outcomes.values()
    common = [key for key in first if all(key in other for other in others)]
    same = sum(all(other[key] == first[key] for other in others) for key in common)
    if same:
        found.append(f"All {len(outcomes)} arms end alike on {same:,} of {len(common):,} pairs of task and seed.")
    return found


def budget_binds(rows: Iterable[EpisodeRow]) -> str:
    """How many of the unsolved episodes ended for want of budget; empty where all are solved."""
    lost = [row for row in rows if row.judged and not row.success]
    unsolved, ended = len(lost), sum(BUDGET in f"{row.reason} {row.status}".lower() for row in lost)
    if not unsolved:
        return ""
    share = (
        f"{ended:,} of {unsolved:,} unsolved episodes ({100 * ended / unsolved:.1f} %)"
        if ended
        else "no unsolved episode"
    )
    return f"{share[:1].upper()}{share[1:]} ended for want of budget."
