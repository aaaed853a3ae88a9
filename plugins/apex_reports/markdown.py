"""The report as Markdown."""

from __future__ import annotations

from pathlib import Path

from . import content


class Markdown:
    """Headings, lists and pipe tables."""

    def __init__(self, best_static: str = "") -> None:
        self._best_static = best_static

    @property
    def name(self) -> str:
        """``markdown``."""
        return "markdown"

    @property
    def suffix(self) -> str:
        """``.md``."""
        return ".md"

    def render(self, runs: tuple[Path, ...]) -> str:
        """Verdict first. Raises ArtifactError, NotComparableError."""
        found = content.content_of(runs, self._best_static)
        word, _, rest = found.verdict.partition(":")
        parts = [f"**{word}:**{rest}", f"*{found.level}*", "\n".join(f"- {fact}" for fact in found.facts)]
        for table in found.tables:
            parts += [f"## {table.title}", _pipes(table)]
            if table.notes:
                parts.append("\n".join(f"- {note}" for note in table.notes))
        parts += ["## What this does not show", "\n".join(f"- {limit}" for limit in found.limits)]
        parts += ["## Do it again", "\n".join(["```sh", *found.commands, "```"])]
        return "\n\n".join(parts) + "\n"


def _pipes(table: content.Table) -> str:
    rule = "|".join(["---", *("--:" for _ in table.head[1:])])
    rows = [" | ".join(cell.replace("|", "\\|") for cell in line) for line in (table.head, *table.rows)]
    return "\n".join([f"| {rows[0]} |", f"|{rule}|", *(f"| {row} |" for row in rows[1:])])
