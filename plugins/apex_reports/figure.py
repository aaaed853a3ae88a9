"""A figure: a drawing, what it shows in words, and the numbers in it."""

from __future__ import annotations

from dataclasses import dataclass

from .plain import cell, markup
from .style import SVG_STYLE

LONGEST_ALT = 5_000
"""Characters of what a figure says in words: every number of a curve, and no more than a page of a hostile name."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing with its numbers; ``body`` is SVG inside of a box of ``width`` times ``height`` pixels."""

    name: str
    """File name without suffix, and id on the page."""
    title: str
    alt: str
    """What it shows, for who does not see it."""
    body: str
    width: int
    height: int
    head: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    notes: tuple[str, ...] = ()
    more: tuple[tuple[str, tuple[str, ...], tuple[tuple[object, ...], ...]], ...] = ()
    """Further numbers: what they are, head, rows; each a file of its own."""

    def inline(self) -> str:
        """For a page that has the style already."""
        return self._svg("")

    def file(self) -> str:
        """A file of its own."""
        return self._svg(f"<style>{SVG_STYLE}</style>") + "\n"

    def files(self) -> dict[str, str]:
        """File name -> text: the drawing and its numbers."""
        sheets = {f"{self.name}-{what}.csv": _csv(head, rows) for what, head, rows in self.more}
        return {f"{self.name}.svg": self.file(), f"{self.name}.csv": _csv(self.head, self.rows), **sheets}

    def _svg(self, style: str) -> str:
        name = markup(self.name)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" class="figure" role="img" aria-labelledby="{name}-t {name}-d">'
            f'{style}<title id="{name}-t">{markup(self.title)}</title><desc id="{name}-d">{markup(self.alt, LONGEST_ALT)}</desc>'
            f"{self.body}</svg>"
        )


def _csv(head: tuple[str, ...], rows: tuple[tuple[object, ...], ...]) -> str:
    return "".join(",".join(cell(value) for value in row) + "\n" for row in (head, *rows))
