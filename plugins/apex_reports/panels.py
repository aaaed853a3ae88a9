"""What a controller weighed, below the lanes of a timeline: scores as lines, features as strips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from . import svg
from .observed import STAY, DecisionRow

COLUMN = 14
HIGH = 92
STRIP = 15


@dataclass(frozen=True, slots=True)
class Scale:
    """Where columns and steps are on the page."""

    columns: int
    places: Mapping[int, float]
    """Step -> column after it, for the steps that are drawn."""
    left: float = 150.0

    @property
    def right(self) -> float:
        """End of the last column."""
        return self.left + max(30, self.columns + 1) * COLUMN

    def x(self, column: float) -> float:
        """Middle of a column."""
        return self.left + (min(column, self.columns) + 1) * COLUMN

    def after(self, step: int) -> float:
        """Just after a step."""
        return self.x(self.places[step])

    def colour(self, name: str, topologies: Sequence[str]) -> int:
        """The colour of a topology, or of staying."""
        return svg.colour(topologies.index(name)) if name in topologies else svg.COLOURS - 1


@dataclass(frozen=True, slots=True)
class Panel:
    """A drawn part and where it ends."""

    body: str
    bottom: float


def scores_panel(decisions: Sequence[DecisionRow], topologies: Sequence[str], scale: Scale, top: float) -> Panel:
    """Scores of all actions at every decision that weighed them; a ring marks the one that was chosen."""
    rows = [d for d in decisions if d.scores and d.step in scale.places]
    if not rows:
        return Panel("", top)
    values = [value for d in rows for value in d.scores.values()]
    low, high = min(values), max(values)
    if high == low:
        low, high = low - 0.5, high + 0.5
    bottom = top + HIGH

    def y(value: float) -> float:
        return bottom - 8 - (value - low) / (high - low) * (HIGH - 16)

    parts = [svg.rect(scale.left, top, scale.right - scale.left, HIGH, "back")]
    parts.append(svg.text(scale.left - 8, top + 14, "scores", "soft", "end"))
    for tick in svg.ticks(low, high, 4):
        parts.append(svg.line(scale.left, y(tick), scale.right, y(tick), "rule"))
        parts.append(
            svg.text(scale.left - 8, y(tick) + 4, f"{tick:g}", "soft tiny", "end") if y(tick) > top + 22 else ""
        )
    actions = list(dict.fromkeys(action for d in rows for action in d.scores))
    ends: list[tuple[str, float]] = []
    for action in actions:
        cls = f"c{scale.colour(action, topologies)}" + (" dashed" if action == STAY else "")
        points = [(i, scale.after(d.step), y(d.scores[action])) for i, d in enumerate(rows) if action in d.scores]
        for (i, x1, y1), (j, x2, y2) in pairwise(points):
            if j == i + 1:  # a topology in force is not weighed: its line has a gap
                parts.append(svg.line(x1, y1, x2, y2, cls))
        parts += [svg.circle(x, value, 2.2, f"f{scale.colour(action, topologies)}") for _, x, value in points]
        ends.append((action, points[-1][2]))
    for d in rows:
        if d.action in d.scores:
            parts.append(svg.circle(scale.after(d.step), y(d.scores[d.action]), 5, "cut", f"chosen: {d.action}"))
    for (action, _), place in zip(ends, svg.spread([e for _, e in ends], 13, top + 8, bottom - 4), strict=True):
        parts.append(
            svg.text(scale.right + 8, place + 4, svg.short(action, 14), f"f{scale.colour(action, topologies)}")
        )
    return Panel("".join(parts), bottom + 12)


def features_panel(decisions: Sequence[DecisionRow], names: Sequence[str], scale: Scale, top: float) -> Panel:
    """A strip per feature, the darker the larger; from one decision to the next."""
    rows = [d for d in decisions if d.features and d.step in scale.places]
    if not rows:
        return Panel("", top)
    count = min(len(d.features) for d in rows)
    edges = [*(scale.after(d.step) for d in rows), scale.right]
    parts = []
    for index in range(count):
        name = names[index] if index < len(names) else f"feature {index + 1}"
        values = [d.features[index] for d in rows]
        low, high = min(0.0, *values), max(1.0, *values)
        y = top + index * STRIP
        parts.append(svg.text(scale.left - 8, y + 11, svg.short(name, 24), "soft tiny", "end"))
        parts.append(svg.rect(scale.left, y, scale.right - scale.left, STRIP - 2, "back"))
        for d, value, x1, x2 in zip(rows, values, edges, edges[1:], strict=False):
            share = (value - low) / (high - low)
            if share > 0:
                told = f"{name} after step {d.step}: {value:.3f}"
                parts.append(svg.rect(x1, y, x2 - x1, STRIP - 2, "heat", told, fill_opacity=f"{share:.2f}"))
    return Panel("".join(parts), top + count * STRIP + 4)
