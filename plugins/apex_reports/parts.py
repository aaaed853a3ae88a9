"""Pieces of the HTML page. All text goes through ``markup``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .cells import Table
from .figure import Figure
from .plain import LONGEST, markup

SHOWN = 60
"""Rows of a figure's numbers on the page; its file has all."""
LONG = 34
"""Characters from which on a cell is text that may wrap."""
SENTENCE = 5_000
"""Characters of running text, which is our own but for the names in it."""


def paragraph(words: str) -> str:
    """A paragraph."""
    return f"<p>{markup(words, SENTENCE)}</p>"


def listed(sentences: Sequence[str]) -> str:
    """A list."""
    return "<ul>" + "".join(f"<li>{markup(s, SENTENCE)}</li>" for s in sentences) + "</ul>" if sentences else ""


def pre(commands: Sequence[str]) -> str:
    """Commands, one a line."""
    return "<pre><code>" + "\n".join(markup(command, SENTENCE) for command in commands) + "</code></pre>"


def table(
    found: Table,
    marks: Mapping[str, str] | None = None,
    *,
    words: bool = False,
    titled: bool = True,
    longest: int = LONGEST,
) -> str:
    """A table that scrolls by itself; ``marks`` are classes for cells, ``words`` lets all cells wrap.

    A cell of more than ``longest`` characters is cut. Without ``titled`` its title is there only for who cannot see that the heading says the same.
    """
    if not found.rows:
        return ""
    kinds = ["words" if words else _kind([row[i] for row in found.rows]) for i in range(len(found.head))]
    head = "".join(
        f'<th scope="col"{_class(kind)}>{markup(cell)}</th>' for cell, kind in zip(found.head, kinds, strict=True)
    )
    rows = "".join(
        f'<tr><th scope="row"{_class(kinds[0])}>{markup(row[0])}</th>'
        + "".join(
            f"<td{_class((marks or {}).get(cell, kind))}>{markup(cell, longest)}</td>"
            for cell, kind in zip(row[1:], kinds[1:], strict=True)
        )
        + "</tr>\n"
        for row in found.rows
    )
    notes = "".join(paragraph(note) for note in found.notes)
    label = markup(found.title)
    return (
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table>'
        f"<caption{_class('' if titled else 'away')}>{label}</caption>"
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
        + (f'<div class="notes">{notes}</div>' if notes else "")
    )


def drawing(figure: Figure | None, *, fit: bool = True, inside: bool = True, titled: bool = True) -> str:
    """A figure with its notes; ``inside`` adds its numbers as a table, where the page has them nowhere else."""
    if figure is None:
        return ""
    notes = "".join(paragraph(note) for note in figure.notes)
    label = markup(figure.title)
    return (
        f'<figure><figcaption{_class("" if titled else "away")}>{label}</figcaption><div class="scroll{" fit" if fit else ""}" role="region" '
        f'aria-label="Figure: {label}" tabindex="0">{figure.inline()}</div>'
        + (f'<div class="notes">{notes}</div>' if notes else "")
        + (_numbers(figure) if inside else "")
        + "</figure>"
    )


def _numbers(figure: Figure) -> str:
    rows = tuple(tuple(_shown(value) for value in row) for row in figure.rows[:SHOWN])
    more = len(figure.rows) - len(rows)
    notes = (f"{more:,} more rows are in the figure's CSV file: --figures.",) if more > 0 else ()
    title = f"Numbers of: {figure.title}"
    return f'<details class="numbers"><summary>Its numbers</summary>{table(Table(title, figure.head, rows, notes))}</details>'


def _shown(value: object) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _kind(cells: Sequence[str]) -> str:
    """The class of a column: words that may wrap, text, or numbers."""
    if any(len(cell) > LONG for cell in cells):
        return "words"
    return "" if all(cell[:1].isdigit() or cell[:1] in "+-≤<" or cell in ("", "none") for cell in cells) else "text"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
