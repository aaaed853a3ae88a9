"""A module's text with its syntax tree, and edits of the text that leave the rest as it was."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replacement:
    """Bytes ``start`` to ``end`` (UTF-8, end exclusive) give way to ``text``."""

    start: int
    end: int
    text: str


class SourceText:
    """A text, its tree, and the way from nodes to bytes. Raises SyntaxError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.data = text.encode()
        self.tree = ast.parse(text)
        self.starts = [0]
        for line in self.data.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """First and last byte (exclusive) of a statement or expression."""
        return (
            self.starts[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]  # only located nodes come here
            self.starts[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]  # only located nodes come here
        )

    def segment(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def line(self, number: int) -> str:
        """A line (1-based) without its end."""
        return self.data[self.starts[number - 1] : self.starts[number] - 1].decode()

    def apply(self, edits: Iterable[Replacement]) -> str:
        """The text after non-overlapping edits."""
        return apply_edits(self.data, edits)


def apply_edits(data: bytes, edits: Iterable[Replacement]) -> str:
    """Text after non-overlapping edits of its UTF-8 bytes."""
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        data = data[: edit.start] + edit.text.encode() + data[edit.end :]
    return data.decode()
