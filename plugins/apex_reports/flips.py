"""Flips: tasks that one arm solves and the other does not, pair by pair."""

from __future__ import annotations

from apex_framework.analysis import Answer, PairedTask, pair

from . import svg
from .figure import Figure

WIDTH, MIDDLE, SPAN, ROW = 900, 500, 300, 24
LETTER = 6.4
"""Pixels of a letter, about."""
NAMED = 12
"""Tasks that are named per side on the page; a file of the figure has all."""


def flips(answer: Answer) -> tuple[Figure, tuple[tuple[str, ...], ...]] | None:
    """The figure, and rows (against, tasks won, tasks lost) of the headline's comparisons; None without one."""
    head = answer.verdicts[0].arm if answer.verdicts else answer.arms[0].arm if answer.arms else ""
    lifts = [lift for lift in answer.lifts if lift.arm == head]
    if not lifts:
        return None
    arm = lifts[0].arm
    most = max(5, *(max(lift.wins, lift.losses, lift.tasks // 10) for lift in lifts))
    parts = [
        svg.text(MIDDLE - 10, 14, "the other solves more ←", "soft", "end"),
        svg.text(MIDDLE + 10, 14, f"→ {svg.short(arm, 30)} solves more", "soft", "start"),
    ]
    rows: list[tuple[object, ...]] = []
    named: list[tuple[str, ...]] = []
    y = 36
    for lift in lifts:
        won, lost = lift.wins / most * SPAN, lift.losses / most * SPAN
        parts += [
            svg.text(0, y + 4, svg.short(f"against {lift.against}", int((MIDDLE - lost - 36) / LETTER))),
            svg.rect(MIDDLE - lost, y - 8, lost, 16, "lost", f"{lift.losses} lost against {lift.against}"),
            svg.rect(MIDDLE, y - 8, won, 16, "won", f"{lift.wins} won against {lift.against}"),
            svg.text(MIDDLE - lost - 6, y + 4, lift.losses, "strong", "end"),
            svg.text(MIDDLE + won + 6, y + 4, lift.wins, "strong", "start"),
        ]
        y += ROW
        pairing = pair(answer.run.rows, arm, lift.against, partial=True)
        turned = [task for task in pairing.tasks if task.ours != task.theirs]
        for task in turned:
            side = "won" if task.ours > task.theirs else "lost"
            rows.append((arm, lift.against, side, task.task_id, task.cluster, task.family, task.ours, task.theirs))
        sides = ([t for t in turned if t.ours > t.theirs], [t for t in turned if t.ours < t.theirs])
        named.append((lift.against, *(_named(side) for side in sides)))
    parts.append(svg.line(MIDDLE, 22, MIDDLE, y - 8, "zero"))
    figure = Figure(
        "flips",
        f"Tasks won and lost by {arm}",
        "; ".join(f"against {x.against}: {x.wins} won, {x.losses} lost of {x.tasks}" for x in lifts),
        "".join(parts),
        WIDTH,
        y,
        ("arm", "against", "side", "task", "cluster", "family", "ours", "theirs"),
        tuple(rows),
        (
            "Won or lost: a larger or smaller share of a task's seeds solved than by the other; all other tasks are ties.",
        ),
    )
    return figure, tuple(named)


def _named(tasks: list[PairedTask]) -> str:
    names = ", ".join(task.task_id for task in tasks[:NAMED]) or "none"
    return names if len(tasks) <= NAMED else f"{names}, and {len(tasks) - NAMED} more"
