"""The figure of bench ``denials``: curves over episodes as SVG, the mean of the seeds with their range behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 60, 150, 40, 50
COLOURS = ("#1b6ca8", "#c8553d", "#2e8b57", "#7b5ea7")
GREYS = ("#555555", "#888888", "#aaaaaa")


@dataclass(frozen=True, slots=True)
class Line:
    """A named curve: (episode, one value per seed); those called ``static ...`` are drawn grey and broken."""

    name: str
    points: Sequence[tuple[int, Sequence[float]]]


def figure(lines: Sequence[Line], title: str) -> str:
    """An SVG document. Raises ValueError when there is nothing to draw."""
    if not lines or not all(line.points for line in lines):
        raise ValueError("a figure needs a curve, and a curve a point")
    values = [value for line in lines for _, at in line.points for value in at]
    last = max(2, max(line.points[-1][0] for line in lines))
    low, high = _limits(values)

    def x(episode: float) -> float:
        return LEFT + (episode - 1) / (last - 1) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 12}">last episode of the window; shaded: range of the seeds</text>',
    ]
    for tick in range(round(low * 20), round(high * 20) + 1):
        at = y(tick / 20)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tick * 5} %</text>')
    parts += [
        f'<text x="{x(episode):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{episode}</text>'
        for episode in sorted({1, last // 2, last})
    ]
    colours, greys = iter(COLOURS * len(lines)), iter(GREYS * len(lines))
    for number, line in enumerate(lines):
        static = line.name.startswith("static ")
        colour, dashes = (next(greys), ' stroke-dasharray="5 4"') if static else (next(colours), "")
        there = [(x(at), y(min(seen)), y(max(seen)), y(sum(seen) / len(seen))) for at, seen in line.points]
        upper = " ".join(f"{px:.1f},{best:.1f}" for px, _, best, _ in there)
        lower = " ".join(f"{px:.1f},{worst:.1f}" for px, worst, _, _ in reversed(there))
        mean = " ".join(f"{px:.1f},{middle:.1f}" for px, _, _, middle in there)
        if not static:
            parts.append(f'<polygon points="{upper} {lower}" fill="{colour}" opacity="0.15"/>')
        parts.append(f'<polyline points="{mean}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        key = TOP + 18 * number
        parts.append(f'<path d="M{WIDTH - RIGHT + 12} {key}h22" stroke="{colour}" stroke-width="2"{dashes}/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 40}" y="{key + 4}">{escape(line.name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """The axis, in whole steps of 5 points around the values."""
    low, high = int(min(values) * 20) / 20, (int(max(values) * 20) + 1) / 20
    return max(0.0, low), high
