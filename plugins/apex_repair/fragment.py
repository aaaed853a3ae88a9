"""A shown piece of source as a syntax tree, and edits of it as whole lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from apex_framework.interfaces.prompting import Edit, Section

_LABEL = re.compile(r"(\S+?):(\d{1,7})(?:\s+(.*))?$")
_MOST_DROPPED = 12

_NOT_CODE = {"annotation", "returns", "decorator_list", "type_params", "type_comment", "ctx"}

Located = ast.expr | ast.stmt
"""A node that has a place in the source."""


@dataclass(frozen=True, slots=True)
class Splice:
    """Replace a span by text. Rows count from 0 in the fragment, columns are UTF-8 bytes."""

    row: int
    column: int
    end_row: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True)
class Site:
    """A node with what is around it; ``statement`` is the innermost that holds it, ``scope`` its function."""

    node: Located
    parent: ast.AST
    field: str
    statement: ast.stmt
    scope: ast.AST


@dataclass(frozen=True, slots=True)
class Fragment:
    """A FUNCTION section that parses."""

    path: str
    first: int
    qualname: str
    lines: tuple[bytes, ...]
    tree: ast.Module
    added: int
    """Lines put before it to make it parse."""
    head: int
    """Lines of it, from its beginning, that the tree leaves out."""
    tail: int

    def row(self, node: Located) -> int:
        """The row where a node begins."""
        return node.lineno - 1 - self.added

    def end_row(self, node: Located) -> int:
        """The row where a node ends."""
        return (node.end_lineno or node.lineno) - 1 - self.added

    def over(self, node: Located, text: str) -> Splice:
        """A splice that replaces a node."""
        return Splice(self.row(node), node.col_offset, self.end_row(node), node.end_col_offset or 0, text)

    def text(self, node: Located) -> str:
        """A node's source."""
        span = self.over(node, "")
        return self.between(span.row, span.column, span.end_row, span.end_column)

    def between(self, row: int, column: int, end_row: int, end_column: int) -> str:
        """The source of a span."""
        if row == end_row:
            return self.lines[row][column:end_column].decode()
        middle = self.lines[row + 1 : end_row]
        return b"\n".join([self.lines[row][column:], *middle, self.lines[end_row][:end_column]]).decode()

    def indent(self, node: Located) -> str:
        """The white space before the line where a node begins."""
        line = self.lines[self.row(node)]
        return line[: len(line) - len(line.lstrip())].decode()

    def apply(self, splices: tuple[Splice, ...]) -> Edit:
        """Splices that do not overlap, as one edit of whole lines."""
        first = min(s.row for s in splices)
        last = max(s.end_row for s in splices)
        lines = [*self.lines[first : last + 1]]
        for s in sorted(splices, key=lambda s: (s.row, s.column), reverse=True):
            head, tail = lines[s.row - first][: s.column], lines[s.end_row - first][s.end_column :]
            lines[s.row - first : s.end_row - first + 1] = (head + s.text.encode() + tail).split(b"\n")
        return Edit(
            self.path,
            self.first + first,
            b"\n".join(self.lines[first : last + 1]).decode(),
            b"\n".join(lines).decode(),
        )

    def parses_with(self, edit: Edit) -> bool:
        """Whether the fragment still parses, and differs, when an edit of its lines is applied."""
        at = edit.line - self.first
        size = edit.search.count("\n") + 1
        old = [line.decode() for line in self.lines]
        new = [*old[:at], *edit.replace.split("\n"), *old[at + size :]]
        kept = new[self.head : len(new) - self.tail]
        tree = _parse(_frame(old[self.head :]) + kept)
        return tree is not None and edit.search != edit.replace

    def sites(self) -> Iterator[Site]:
        """Every node that may be edited: not inside f-strings, annotations, decorators or docstrings."""
        stack: list[tuple[ast.AST, ast.AST, str, ast.stmt, ast.AST]] = []
        stack.extend((s, self.tree, "body", s, self.tree) for s in reversed(self.tree.body))
        while stack:
            node, parent, field, statement, scope = stack.pop()
            if isinstance(node, ast.JoinedStr):
                continue
            if isinstance(node, (ast.expr, ast.stmt)) and self.row(node) >= self.head:
                yield Site(node, parent, field, statement, scope)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                scope = node
            for name, value in reversed(list(ast.iter_fields(node))):
                if name not in _NOT_CODE:
                    children = reversed(value) if isinstance(value, list) else [value]
                    stack.extend(
                        (child, node, name, child if isinstance(child, ast.stmt) else statement, scope)
                        for child in children
                        if isinstance(child, ast.AST) and not _is_docstring(child)
                    )


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _parse(lines: list[str]) -> ast.Module | None:
    try:
        return ast.parse("\n".join(lines) + "\n")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _frame(lines: list[str]) -> list[str]:
    """Lines to put before a piece of source so that its indentation makes sense."""
    levels: dict[str, str] = {}
    lowest: str | None = None
    for line in lines:
        stripped = line.lstrip()
        if not stripped or stripped.startswith("#"):
            continue
        indent = line[: len(line) - len(stripped)]
        if lowest is None or len(indent) < len(lowest):
            if lowest is not None:
                levels[indent] = "try:" if re.match(r"(except|finally)\b", stripped) else "if 1:"
            elif indent:
                levels[""] = "if 1:"
            lowest = indent
    return [indent + levels[indent] for indent in sorted(levels, key=len)]


def read_fragment(section: Section) -> Fragment | None:
    """A FUNCTION section; of source cut off at either end the part that parses. None when there is none."""
    label = _LABEL.match(section.label)
    lines = section.body.split("\n") if section.body else []
    if not label or not lines:
        return None
    cuts = [(0, tail) for tail in range(_MOST_DROPPED)] + [(head, 0) for head in range(1, _MOST_DROPPED)]
    for head, tail in cuts:
        kept = lines[head : len(lines) - tail]
        if not kept:
            continue
        frame = _frame(kept)
        tree = _parse(frame + kept)
        if tree is not None:
            return Fragment(
                path=label[1],
                first=int(label[2]),
                qualname=label[3] or "",
                lines=tuple(line.encode("utf-8", "replace") for line in lines),
                tree=tree,
                added=len(frame) - head,
                head=head,
                tail=tail,
            )
    return None
