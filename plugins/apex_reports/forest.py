"""The forest plot: every paired lift with its interval."""

from __future__ import annotations

from collections.abc import Callable

from apex_framework.analysis import Answer, Lift, points

from . import svg
from .figure import Figure
from .paired import headline

WIDTH, LEFT, RIGHT, ROW = 900, 300, 650, 24
"""Pixels: names left of LEFT, numbers right of RIGHT."""


def forest(answer: Answer) -> Figure | None:
    """Draws those of the headline's arm, its numbers are of all; None without a lift."""
    if not answer.lifts:
        return None
    ours = {(lift.arm, lift.against) for verdict in answer.verdicts[:1] for lift in verdict.lifts}
    shown = [lift for lift in answer.lifts if lift.arm == headline(answer)]
    low = min(0.0, *(lift.interval.low for lift in shown))
    high = max(0.0, *(lift.interval.high for lift in shown))
    low, high = max(-1.0, low - 0.03), min(1.0, high + 0.03)

    def at(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (RIGHT - LEFT)

    parts: list[str] = []
    y = 34
    arm = ""
    for lift in shown:
        if lift.arm != arm:
            arm = lift.arm
            parts.append(svg.text(0, y + 4, f"{svg.short(arm, 46)} over", "strong"))
            y += ROW
        parts += _row(lift, y, at, (lift.arm, lift.against) in ours)
        y += ROW
    bottom = y - 4
    axis = [svg.line(at(0), 20, at(0), bottom, "zero")]
    for tick in svg.ticks(100 * low, 100 * high, 7):
        x = at(tick / 100)
        axis += [svg.line(x, bottom, x, bottom + 4, "axis"), svg.text(x, bottom + 17, f"{tick:+g}", "soft", "middle")]
    axis.append(svg.line(LEFT, bottom, RIGHT, bottom, "axis"))
    axis.append(svg.text((LEFT + RIGHT) / 2, bottom + 33, "percentage points of tasks solved", "soft", "middle"))
    axis.append(svg.text(at(0) - 8, 14, "fewer solved ←", "soft", "end"))
    axis.append(svg.text(at(0) + 8, 14, "→ more solved", "soft", "start"))
    return Figure(
        "forest",
        "Paired lifts with 95 % intervals",
        "; ".join(f"{x.arm} over {x.against} {points(x.estimate)}, {_span(x)}" for x in shown[:12]),
        "".join(axis + parts),
        WIDTH,
        bottom + 42,
        ("arm", "against", "lift", "low", "high", "wins", "losses", "tasks", "clusters", "method", "in the verdict"),
        tuple(
            (
                *(x.arm, x.against, x.estimate, x.interval.low, x.interval.high, x.wins, x.losses, x.tasks, x.clusters),
                *(x.interval.method, "yes" if (x.arm, x.against) in ours else "no"),
            )
            for x in answer.lifts
        ),
        ("Squares: the comparisons that the verdict rests on." + " Rings: all others." * (len(ours) < len(shown)),)
        if ours
        else (),
    )


def _row(lift: Lift, y: int, at: Callable[[float], float], ours: bool) -> list[str]:
    low, middle, high = (at(v) for v in (lift.interval.low, lift.estimate, lift.interval.high))
    side = "won" if lift.interval.low > 0 else "lost" if lift.interval.high < 0 else "work"
    told = f"{lift.arm} over {lift.against}: {points(lift.estimate)}, {_span(lift)}, {lift.interval.method}"
    mark = svg.rect(middle - 5, y - 5, 10, 10, side, told) if ours else svg.circle(middle, y, 4.5, "open", told)
    return [
        svg.text(16, y + 4, svg.short(lift.against, 44)),
        svg.line(low, y, high, y, "cut"),
        svg.line(low, y - 4, low, y + 4, "cut"),
        svg.line(high, y - 4, high, y + 4, "cut"),
        mark,
        svg.text(WIDTH, y + 4, f"{points(lift.estimate)}  ({_span(lift)})", "", "end"),
    ]


def _span(lift: Lift) -> str:
    return f"{points(lift.interval.low)} to {points(lift.interval.high)}"
