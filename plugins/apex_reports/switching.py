"""When arms switched, between what, and what their controllers saw then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apex_framework.analysis import Answer, percentile

from . import svg
from .cells import Table
from .colours import arm_colours
from .figure import Figure
from .observed import Conduct, Observed

WIDTH, LEFT, RIGHT, ROW = 900, 190, 760, 58
COLUMNS = 60
LEARNED = ("bandit_v1", "linucb", "thompson")
STATE_FEATURES = ("steps since switch", "planner share", "coder and runner share", "critic share", "token headroom")
"""Names of what these controllers see after the topology in force; run folders hold numbers only."""


def feature_names(setting: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """Names of an arm's features, numbers where they are not known."""
    topologies = tuple(str(name) for name in setting.get("topologies") or ())
    known = (*(f"is {name}" for name in topologies), *STATE_FEATURES)
    named = str(setting.get("controller", "")).split(":")[0] in LEARNED and len(known) == count
    return known if named else tuple(f"feature {i + 1}" for i in range(count))


def when(answer: Answer, observed: Observed) -> Figure | None:
    """At which steps arms switched; None when none did."""
    arms = [(a.arm, observed.arms[a.arm]) for a in answer.arms if a.arm in observed.arms and observed.arms[a.arm].steps]
    if not arms:
        return None
    last = max(max(conduct.steps) for _, conduct in arms)
    wide = last // COLUMNS + 1
    columns = last // wide + 1
    step = (RIGHT - LEFT) / columns
    colours = arm_colours(answer)
    parts: list[str] = []
    for index, (name, conduct) in enumerate(arms):
        base = 8 + (index + 1) * ROW
        counts = [0] * columns
        for at, count in conduct.steps.items():
            counts[at // wide] += count
        most = max(counts)
        parts.append(svg.text(0, base - 4, svg.short(name, 28)))
        for i, count in enumerate(counts):
            if count:
                tall = max(1.5, count / most * (ROW - 16))
                told = f"{name}: {count} switches at {_steps(i * wide, wide)}"
                colour = f"f{colours[name]}"
                parts.append(svg.rect(LEFT + i * step + 0.5, base - tall, min(28, step) - 1, tall, colour, told))
        parts.append(svg.line(LEFT, base, RIGHT, base, "rule"))
        parts.append(svg.text(RIGHT + 12, base - 4, f"{sum(counts):,} switches", "soft"))
    bottom = 8 + len(arms) * ROW
    for tick in svg.ticks(0, last, 10):
        if tick == int(tick):
            x = LEFT + (tick // wide) * step + min(28, step) / 2
            parts.append(svg.text(x, bottom + 14, f"{tick:g}", "soft", "middle"))
    parts.append(svg.text((LEFT + RIGHT) / 2, bottom + 30, "step (messages handled before it)", "soft", "middle"))
    return Figure(
        "switches",
        "Steps at which topologies were switched",
        "; ".join(
            f"{name}: {sum(c.steps.values())} switches, most at step {c.steps.most_common(1)[0][0]}" for name, c in arms
        ),
        "".join(parts),
        WIDTH,
        bottom + 38,
        ("arm", "step", "switches"),
        tuple((name, at, count) for name, c in arms for at, count in sorted(c.steps.items())),
    )


def unfiled(answer: Answer, observed: Observed) -> list[str]:
    """Which arms' episodes count switches or aborts that no line tells of, one sentence each."""
    found = []
    for arm in answer.arms:
        rows = [row for row in answer.run.rows if row.arm == arm.arm]
        seen = observed.arms.get(arm.arm, Conduct())
        committed, aborted = sum(row.switches for row in rows), sum(row.aborted for row in rows)
        filed = sum(seen.moves.values()) + sum(seen.aborts.values())
        if committed + aborted > filed:
            of_those = f"; {filed:,} of these are" if filed else ""
            found.append(
                f"{arm.arm}: episodes count {committed:,} switches and {aborted:,} aborted ones; when and why is not on "
                f"file{of_those}."
            )
    return found


def tables(answer: Answer, observed: Observed) -> list[Table]:
    """Decisions per arm, moves, what aborted, and features at wishes and at rest."""
    arms = [(a.arm, observed.arms[a.arm]) for a in answer.arms if a.arm in observed.arms]
    choosing = [(name, c) for name, c in arms if c.wishes or c.moves or c.aborts]
    found = [_decisions(choosing), _moves(choosing), _aborts(choosing)]
    for name, conduct in choosing:
        found.append(_features(name, conduct, answer.run.arms.get(name, {})))
    return [table for table in found if table.rows]


def _decisions(arms: Sequence[tuple[str, Conduct]]) -> Table:
    return Table(
        "Decisions",
        ("arm", "starts with", "decisions", "wishes", "carried out", "aborted", "explored", "median margin"),
        tuple(
            (
                name,
                ", ".join(f"{topology} {count}" for topology, count in c.starts.most_common(4)) or "-",
                f"{c.decisions:,}",
                f"{c.wishes:,}",
                f"{sum(c.moves.values()):,}",
                f"{sum(c.aborts.values()):,}",
                f"{c.explored:,}",
                f"{percentile(c.margins, 0.5):+.3f}" if c.margins else "-",
            )
            for name, c in arms
        ),
        (
            "wishes: decisions for another topology; those not carried out waited for dwell or cooldown, were replaced, or aborted.",
            "explored: decisions with a positive exploration rate. median margin: score of the wish minus the score of staying.",
        ),
    )


def _moves(arms: Sequence[tuple[str, Conduct]]) -> Table:
    rows = [
        (name, origin, target, f"{count:,}", f"{100 * count / sum(c.moves.values()):.0f} %")
        for name, c in arms
        for (origin, target), count in sorted(c.moves.items(), key=lambda item: (-item[1], item[0]))
    ]
    return Table("Switches that were committed", ("arm", "from", "to", "switches", "share"), tuple(rows))


def _aborts(arms: Sequence[tuple[str, Conduct]]) -> Table:
    rows = [(name, reason, f"{count:,}") for name, c in arms for reason, count in sorted(c.aborts.items())]
    return Table("Switches that were aborted", ("arm", "reason", "switches"), tuple(rows))


def _features(name: str, conduct: Conduct, setting: Mapping[str, Any]) -> Table:
    count = min(len(conduct.moving), len(conduct.staying))
    rows = []
    for index, feature in enumerate(feature_names(setting, count)):
        moving, staying = conduct.moving[index] / conduct.moved, conduct.staying[index] / conduct.stayed
        rows.append((feature, f"{moving:.3f}", f"{staying:.3f}", f"{moving - staying:+.3f}"))
    return Table(
        f"What {name} saw",
        ("feature", "when it wished to switch", "when it stayed", "difference"),
        tuple(rows),
        (
            f"Means over {conduct.moved:,} and {conduct.stayed:,} decisions at which scores were weighed. They describe; "
            "they do not say what the switches brought.",
        ),
    )


def _steps(first: int, wide: int) -> str:
    return f"step {first}" if wide == 1 else f"steps {first} to {first + wide - 1}"
