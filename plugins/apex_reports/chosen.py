"""Which episodes get a timeline: by rules that do not look at how good an episode looks."""

from __future__ import annotations

from collections.abc import Callable

from apex_framework.analysis import Answer, EpisodeRow

from .lines import Key

Rule = tuple[str, Callable[[EpisodeRow], bool]]

RULES: tuple[Rule, ...] = (
    ("the first with two switches or more", lambda row: row.switches >= 2),
    ("the first solved with a switch", lambda row: row.success and row.switches >= 1),
    ("the first not solved with a switch", lambda row: not row.success and row.switches >= 1),
    ("the first with an aborted switch", lambda row: row.aborted >= 1),
)


def chosen(answer: Answer) -> dict[Key, str]:
    """Episode -> why, the one that is open first; in the order of the run's lines, the headline's arm before others.

    One that went like one before it (outcome and steps, and tokens or task) is passed over for another. One more is the busiest; a run without any switch shows its first episode.
    """
    rows = [row for row in answer.run.rows if row.judged]
    head = answer.verdicts[0].arm if answer.verdicts else ""
    rows.sort(key=lambda row: row.arm != head)
    found: dict[Key, str] = {}
    courses: set[tuple[object, ...]] = set()
    for why, rule in RULES:
        fitting = (row for row in rows if rule(row) and _key(row) not in found)
        row = next(fitting, None)
        if row is not None and courses & _course(row):
            row, why = next((r for r in fitting if not courses & _course(r)), None), f"{why} that went otherwise"
        if row is not None:
            found[_key(row)] = why
            courses |= _course(row)
    most = max((row.switches for row in rows), default=0)
    busiest = [row for row in rows if row.switches == most] if most else []
    if not any(_key(row) in found for row in busiest):
        other = next((row for row in busiest if not courses & _course(row)), None)
        if other is not None:
            found[_key(other)] = "the one with most switches"
    if not found and rows:
        found[_key(rows[0])] = "the first episode, for none switched"
    return found


def _course(row: EpisodeRow) -> set[tuple[object, ...]]:
    """What makes two episodes alike: either of these."""
    return {(row.success, row.steps, row.tokens), (row.task_id, row.success, row.steps)}


def _key(row: EpisodeRow) -> Key:
    return row.arm, row.task_id, row.seed
