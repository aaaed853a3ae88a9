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

    One more is the busiest; a run without any switch shows its first episode.
    """
    rows = [row for row in answer.run.rows if row.judged]
    head = answer.verdicts[0].arm if answer.verdicts else ""
    rows.sort(key=lambda row: row.arm != head)
    found: dict[Key, str] = {}
    for why, rule in RULES:
        row = next((row for row in rows if rule(row) and _key(row) not in found), None)
        if row is not None:
            found[_key(row)] = why
    busiest = max(rows, key=lambda row: row.switches, default=None)
    if busiest is not None and busiest.switches:
        found.setdefault(_key(busiest), "the one with most switches")
    if not found and rows:
        found[_key(rows[0])] = "the first episode, for none switched"
    return found


def _key(row: EpisodeRow) -> Key:
    return row.arm, row.task_id, row.seed
