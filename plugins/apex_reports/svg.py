"""Drawing by hand: a few functions that write SVG elements. Colours are classes, so that the page and a file of its own share them."""

from __future__ import annotations

from collections.abc import Sequence

from .plain import markup

WHOLE = 1_000_000
"""Characters of an attribute: a path through many points is long, and must not be cut."""
COLOURS = 8
"""Classes c0 to c7 (lines and text) and f0 to f7 (areas); after them the dashes change."""


def element(name: str, *inside: str, **attributes: object) -> str:
    """An element. ``_`` in names of attributes stands for ``-``, ``cls`` for ``class``; None is left out."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None and value != "":
            key = "class" if key == "cls" else key.replace("_", "-")
            parts.append(f'{key}="{number(value) if isinstance(value, float) else markup(value, WHOLE)}"')
    head = " ".join(parts)
    return f"<{head}>{''.join(inside)}</{name}>" if inside else f"<{head}/>"


def number(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    shown = f"{value:.1f}".removesuffix(".0")
    return "0" if shown == "-0" else shown


def text(x: float, y: float, words: object, cls: str = "", anchor: str = "") -> str:
    """A line of text; ``anchor`` is start, middle or end."""
    return element("text", markup(words), x=float(x), y=float(y), cls=cls, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, cls: str = "", *inside: str) -> str:
    """A straight line."""
    return element("line", *inside, x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), cls=cls)


def rect(x: float, y: float, width: float, height: float, cls: str = "", title: str = "", **more: object) -> str:
    """A rectangle, with a tooltip if it has a title."""
    size = {"x": float(x), "y": float(y), "width": float(max(0.0, width)), "height": float(max(0.0, height))}
    return element("rect", *told(title), **size, cls=cls, **more)


def circle(x: float, y: float, radius: float, cls: str = "", title: str = "") -> str:
    """A disc or a ring."""
    return element("circle", *told(title), cx=float(x), cy=float(y), r=float(radius), cls=cls)


def path(points: Sequence[tuple[float, float]], cls: str = "", *, closed: bool = False, title: str = "") -> str:
    """A line through points."""
    steps = " ".join(f"{'L' if i else 'M'}{number(x)} {number(y)}" for i, (x, y) in enumerate(points))
    return element("path", *told(title), d=steps + ("Z" if closed else ""), cls=cls)


def told(title: str) -> tuple[str, ...]:
    """The tooltip of an element, if there is one."""
    return (element("title", markup(title)),) if title else ()


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers from ``low`` to ``high``, about as many as wanted."""
    span = high - low
    if span <= 0:
        return [low]
    step = 10.0 ** len(str(int(span)))
    for candidate in sorted(m * 10.0**e for e in range(-6, 9) for m in (1, 2, 2.5, 5)):
        if span / candidate <= wanted:
            step = candidate
            break
    first = int(low / step) - 1
    values = [round((first + i) * step, 10) for i in range(wanted + 4)]
    return [value for value in values if low - 1e-9 <= value <= high + 1e-9]


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The places moved apart, so that neighbours are ``gap`` away and all lie between ``low`` and ``high`` if they fit."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    last = low - gap
    for index in order:
        last = moved[index] = max(moved[index], last + gap)
    limit = high + gap
    for index in reversed(order):
        limit = moved[index] = min(moved[index], limit - gap)
    return moved


def colour(index: int) -> int:
    """The class number for the n-th of something."""
    return index % COLOURS


def short(words: str, most: int) -> str:
    """At most so many characters."""
    return words if len(words) <= most else f"{words[: most - 1]}…"
