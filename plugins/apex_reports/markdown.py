"""The report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .cells import Table
from .content import content_of


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
        found = content_of(runs, self._best_static)
        word, _, rest = _text(found.verdict).partition(":")
        level, facts = f"*{_text(found.level)}*", _list([found.decision] * bool(found.decision) + [*found.facts])
        parts = [f"**{word}:**{rest}", level, facts]
        if (decided := found.registered) is not None:
            said = f"**{_text(decided.word)}**, by the registered rule: {_text(decided.sentence)}"
            more = [_text(decided.rest)] if decided.rest else []
            own = [level, facts] if found.same else ["## This run by itself", *parts]
            parts = [said, *more, _list(decided.facts), *own]
        parts.insert(0, _text(found.question))
        if found.unfinished:
            parts.insert(0, f"**{_text(found.unfinished)}**")
        if found.early_look:
            parts.insert(0, f"**{_text(found.early_look)}**")
        for table in found.tables:
            parts += [f"## {table.title}", _pipes(table)]
            if notes := [*table.notes, *(found.roles if table.title == "Arms" else ())]:
                parts.append(_list(notes))
        parts += ["## What this does not show", _list(found.limits)]
        if found.words:
            parts += ["## Words", _list(found.words)]
        longest = max((len(ticks) for ticks in re.findall("`+", "\n".join(found.commands))), default=0)
        fence = "`" * max(3, longest + 1)  # no command closes the block that it stands in
        parts += ["## Do it again", "\n".join([f"{fence}sh", *found.commands, fence])]
        return "\n\n".join(parts) + "\n"


def _pipes(table: Table) -> str:
    rule = "|".join(["---", *("--:" for _ in table.head[1:])])
    rows = [" | ".join(_text(cell).replace("|", "\\|") for cell in line) for line in (table.head, *table.rows)]
    return "\n".join([f"| {rows[0]} |", f"|{rule}|", *(f"| {row} |" for row in rows[1:])])


def _list(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {_text(sentence)}" for sentence in sentences)


def _text(words: str) -> str:
    """Names from a run are no markup."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace("`", "&#96;")
