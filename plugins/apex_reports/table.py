"""The report as plain text for a terminal."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

from . import cells
from .content import content_of
from .words import SHORT

WIDTH = 110
"""Columns that running text is wrapped to; tables are as wide as they are."""


class Table:
    """Plain text, aligned columns."""

    def __init__(self, best_static: str = "") -> None:
        self._best_static = best_static

    @property
    def name(self) -> str:
        """``table``."""
        return "table"

    @property
    def suffix(self) -> str:
        """Plain text has none."""
        return ""

    def render(self, runs: tuple[Path, ...]) -> str:
        """Verdict first. Raises ArtifactError, NotComparableError."""
        found = content_of(runs, self._best_static)
        parts = [] if found.same else ["\n".join(_wrapped(found.verdict))]
        parts.append("\n".join(_wrapped(found.level)))
        facts = [found.decision, *found.facts]
        parts.append("\n".join(line for fact in facts for line in _wrapped(fact)))
        if (decided := found.registered) is not None:
            head = [*_wrapped(f"{decided.word}, by the registered rule: {decided.sentence}"), *_wrapped(decided.rest)]
            parts.insert(0, "\n".join([*head, *(x for fact in decided.facts for x in _wrapped(fact, "  "))]))
        if found.unfinished:
            parts.insert(0, found.unfinished)
        if found.early_look:
            parts.insert(0, "\n".join(_wrapped(found.early_look)))
        for table in found.tables:
            notes = [line for note in table.notes for line in _wrapped(note, "  ")]
            parts.append("\n".join([table.title, *_aligned(table), *notes]))
        parts.append("\n".join(["What this does not show", *(x for s in found.limits for x in _wrapped(s, "  "))]))
        if found.words:
            parts.append(f"{found.question}\n{SHORT}")
        parts.append("\n".join(["Do it again", *(f"  {command}" for command in found.commands)]))
        return "\n\n".join(parts) + "\n"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _aligned(table: cells.Table) -> list[str]:
    lines = [table.head, *table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.head))]
    out = []
    for line in lines:
        cells = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))]
        out.append("  " + "  ".join(cells).rstrip())
    out.insert(1, "  " + "  ".join("-" * w for w in widths))
    return out
