"""Success at a budget: runs of several budgets as points, one budget as what was solved after how many tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from apex_framework.analysis import Answer, ArmSummary, EpisodeRow, RunData, summarize_arm

from . import svg
from .colours import arm_colours
from .figure import Figure

WIDTH, HEIGHT = 900, 380
LEFT, RIGHT, TOP, BOTTOM = 52, 640, 26, 336
DASHES = ("", "dashed", "dotted")


@dataclass(frozen=True, slots=True)
class Ladder:
    """Arms that differ in their budget only, by budget; most have one."""

    name: str
    rungs: Mapping[int, ArmSummary]


def curve(answer: Answer, rungs: Sequence[RunData] = ()) -> Figure | None:
    """None when no arm has a budget; ``rungs`` are runs of the same arms at other budgets."""
    found = ladders(answer, rungs)
    most = max((budget for ladder in found for budget in ladder.rungs), default=0)
    if not most:
        return None
    steps = {
        ladder.name: _steps(answer.run.rows, next(iter(ladder.rungs.values())).arm)
        for ladder in found
        if len(ladder.rungs) == 1
    }
    highest = max(arm.interval.high for ladder in found for arm in ladder.rungs.values())
    top = _top(max(0.1, highest))
    wide = 7 * (len(found) - 1) / 2  # beside each other at the largest budget, where bars would hide each other

    def x(tokens: float) -> float:
        return LEFT + tokens / most * (RIGHT - wide - 10 - LEFT)

    def y(share: float) -> float:
        return BOTTOM - min(share, top) / top * (BOTTOM - TOP)

    parts = _axes(x, y, most, top)
    ends = [y(ladder.rungs[max(ladder.rungs)].success) for ladder in found]
    labels = svg.spread(ends, 15, TOP, BOTTOM)
    label = RIGHT + 30
    rows: list[tuple[object, ...]] = []
    colours = arm_colours(answer)
    shades: list[int] = []
    for index, ladder in enumerate(found):
        shade = colours.get(ladder.name, svg.colour(index))
        cls = f"c{shade} {DASHES[shades.count(shade) % 3]}".strip()
        shades.append(shade)
        if ladder.name in steps:
            stairs = steps[ladder.name]
            budget, arm = next(iter(ladder.rungs.items()))
            drawn = _stairs(stairs, budget)
            parts.append(svg.path([(x(t), y(s)) for t, s in drawn], cls))
            rows += [(ladder.name, t, s, "", "", "solved after so many tokens", arm.tasks) for t, s in stairs]
        else:
            parts.append(svg.path([(x(b), y(a.success)) for b, a in sorted(ladder.rungs.items())], cls))
        for budget, arm in sorted(ladder.rungs.items()):
            place = x(budget) + 4 * (index - (len(found) - 1) / 2)
            if budget == most:
                place = x(budget) + 7 * index - wide
            parts += _point(place, y, arm, shade, budget)
            rows.append(
                (ladder.name, budget, arm.success, arm.interval.low, arm.interval.high, "run at this budget", arm.tasks)
            )
        last = max(ladder.rungs)
        parts.append(svg.line(place + 5, ends[index], label - 4, labels[index], "rule"))
        share = f"{100 * ladder.rungs[last].success:.1f} %"
        parts.append(svg.text(label, labels[index] + 4, f"{svg.short(ladder.name, 24)}  {share}", f"f{shade}"))
    notes = ["Points with bars: success at the budget that the episodes had, with its 95 % interval, each for itself."]
    if steps:
        notes.append(
            "Stairs: share solved after so many tokens of that budget. A team given less from the start would have acted "
            "otherwise, so stairs are no Success@budget; more budgets in one report make them points."
        )
    return Figure(
        "success-at-budget",
        "Success@budget",
        "; ".join(
            f"{ladder.name}: {100 * arm.success:.1f} % at {budget:,} tokens"
            for ladder in found
            for budget, arm in sorted(ladder.rungs.items())
        ),
        "".join(parts),
        WIDTH,
        HEIGHT,
        ("arm", "tokens", "solved", "low", "high", "what", "tasks"),
        tuple(rows),
        tuple(notes),
    )


def ladders(answer: Answer, rungs: Sequence[RunData]) -> list[Ladder]:
    """The arms that have a budget and tell their tokens, by their settings but name and budget."""
    groups: dict[str, dict[int, ArmSummary]] = {}
    names: dict[str, str] = {}
    found = [(arm, answer.run.arms.get(arm.arm, {})) for arm in answer.arms]
    for run in rungs:
        found += [(summarize_arm(run.rows, name), setting) for name, setting in run.arms.items()]
    for arm, setting in found:
        budget = setting.get("budget")
        if not isinstance(budget, int) or budget <= 0 or not arm.judged or arm.tokens is None:
            continue
        same = json.dumps({k: v for k, v in setting.items() if k not in ("name", "budget")}, sort_keys=True)
        if budget in groups.get(same, {}):
            same += arm.arm  # a twin under another name is a line of its own
        names.setdefault(same, arm.arm)
        groups.setdefault(same, {})[budget] = arm
    return [Ladder(names[same], rungs) for same, rungs in groups.items()]


def _steps(rows: Sequence[EpisodeRow], arm: str) -> list[tuple[int, float]]:
    """(tokens, share of tasks solved with at most so many), where it rises; seeds averaged inside a task."""
    judged = [row for row in rows if row.arm == arm and row.judged]
    seeds: dict[str, int] = {}
    for row in judged:
        seeds[row.task_id] = seeds.get(row.task_id, 0) + 1
    gains: dict[int, float] = {}
    for row in judged:
        if row.success and row.tokens is not None:
            gains[row.tokens] = gains.get(row.tokens, 0.0) + 1 / seeds[row.task_id] / len(seeds)
    total, found = 0.0, []
    for tokens in sorted(gains):
        total += gains[tokens]
        found.append((tokens, total))
    return found


def _stairs(steps: Sequence[tuple[int, float]], budget: int, most: int = 400) -> list[tuple[float, float]]:
    """Corners of the stairs; of many only so many, which no eye can tell from all."""
    kept = steps if len(steps) <= most else [*steps[:: len(steps) // most + 1], steps[-1]]
    corners: list[tuple[float, float]] = [(0.0, 0.0)]
    for tokens, share in kept:
        place = float(min(tokens, budget))
        corners += [(place, corners[-1][1]), (place, share)]
    return [*corners, (float(budget), corners[-1][1])]


def _point(x: float, y: Any, arm: ArmSummary, shade: int, budget: int) -> list[str]:
    cls = f"c{shade}"
    told = f"{arm.arm}: {100 * arm.success:.1f} % at {budget:,} tokens ({arm.interval.method})"
    low, high = y(arm.interval.low), y(arm.interval.high)
    return [
        svg.line(x, low, x, high, cls),
        svg.circle(x, y(arm.success), 4.5, f"f{shade}", told),
    ]


def _top(highest: float) -> float:
    """The first grid line that no interval goes beyond."""
    lines = svg.ticks(0, 100 * highest, 6)
    step = lines[1] - lines[0]
    return min(1.0, step * ceil(100 * highest / step - 1e-9) / 100)


def _axes(x: Any, y: Any, most: int, top: float) -> list[str]:
    parts = [svg.text(LEFT, 12, "Success@budget: tasks solved, with 95 % intervals", "strong")]
    for tick in svg.ticks(0, 100 * top, 6):
        parts.append(svg.line(LEFT, y(tick / 100), RIGHT, y(tick / 100), "rule"))
        parts.append(svg.text(LEFT - 7, y(tick / 100) + 4, f"{tick:g} %", "soft", "end"))
    for tick in svg.ticks(0, most, 6):
        parts.append(svg.line(x(tick), BOTTOM, x(tick), BOTTOM + 4, "axis"))
        parts.append(svg.text(x(tick), BOTTOM + 18, f"{tick:,.0f}", "soft", "middle"))
    parts.append(svg.line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis"))
    parts.append(svg.text((LEFT + RIGHT) / 2, BOTTOM + 36, "tokens", "soft", "middle"))
    return parts
