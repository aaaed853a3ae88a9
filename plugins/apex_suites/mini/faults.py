"""Faults: every place in a file where an operator of the catalogue could have made a mistake."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from .text import Replacement, SourceText, apply_edits


@dataclass(frozen=True, slots=True)
class Fault:
    """One possible mistake in one function of one file."""

    path: str
    operator: str
    in_vocabulary: bool
    """Whether the embedded solver has an edit operator of this name."""
    function: str
    first: int
    last: int
    """Lines of the function, 1-based and inclusive."""
    line: int
    end_line: int
    """Lines of the changed code."""
    edits: tuple[Replacement, ...]

    @property
    def key(self) -> str:
        """Text that names it."""
        return f"{self.path}:{self.edits[0].start}:{self.operator}:" + "|".join(e.text for e in self.edits)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator may act: a node inside a function."""

    source: SourceText
    function: ast.FunctionDef | ast.AsyncFunctionDef
    node: ast.AST
    parent: ast.AST
    names: tuple[str, ...]
    """Parameters and assigned names of the function, sorted."""
    attributes: tuple[str, ...] = field(default=())
    """Attributes of ``self`` that the class assigns, sorted."""

    def replace(self, node: ast.AST, text: str) -> Replacement:
        """An edit that gives a node another text."""
        return Replacement(*self.source.span(node), text)

    def text(self, node: ast.AST) -> str:
        """A node's text."""
        return self.source.segment(node)

    def between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> Iterator[Replacement]:
        """An edit of the one occurrence of ``old`` between two nodes; nothing when it is not plain there."""
        start, end = self.source.span(left)[1], self.source.span(right)[0]
        gap = self.source.data[start:end]
        if gap.count(old.encode()) == 1 and b"#" not in gap:
            at = start + gap.index(old.encode())
            yield Replacement(at, at + len(old.encode()), new)


Operator = Callable[[Place], Iterator[tuple[Replacement, ...]]]
"""Gives each change that the operator could make at a place."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An operator of the catalogue."""

    name: str
    in_vocabulary: bool
    act: Operator


def find_faults(path: str, source: SourceText, lines: Collection[int], catalogue: tuple[Entry, ...]) -> Iterator[Fault]:
    """All faults on executed ``lines`` that still compile, in the order of the text."""
    seen: set[tuple[Replacement, ...]] = set()
    for function, qualname, owner in functions(source.tree):
        if not any(function.lineno < n <= (function.end_lineno or 0) for n in lines):
            continue
        names = tuple(sorted(assigned(function)))
        attributes = tuple(sorted(own_attributes(owner))) if owner else ()
        for node, parent in nodes_of(function):
            at = node.lineno if isinstance(node, ast.stmt | ast.expr | ast.ExceptHandler) else None
            if at is None or not executed(node, parent, function, lines):
                continue
            place = Place(source, function, node, parent, names, attributes)
            for entry in catalogue:
                for edits in entry.act(place):
                    if edits in seen:
                        continue
                    seen.add(edits)
                    yield Fault(
                        path,
                        entry.name,
                        entry.in_vocabulary,
                        qualname,
                        function.lineno,
                        function.end_lineno or function.lineno,
                        line_of(source, min(e.start for e in edits)),
                        line_of(source, max(e.end for e in edits)),
                        edits,
                    )


def executed(node: ast.AST, parent: ast.AST, function: ast.AST, lines: Collection[int]) -> bool:
    """Whether the tests come by: the node's own lines, or, for a default value, the function's."""
    if parent is function and isinstance(node, ast.expr):
        return True
    first = node.lineno  # type: ignore[attr-defined]  # statements carry positions
    last = first if isinstance(node, ast.If | ast.For | ast.While | ast.Try | ast.With) else node.end_lineno  # type: ignore[attr-defined]  # statements carry positions
    return any(n in lines for n in range(first, (last or first) + 1))


def line_of(source: SourceText, byte: int) -> int:
    """Line (1-based) that holds a byte."""
    return source.data.count(b"\n", 0, byte) + 1


def mutate(source: SourceText, faults: tuple[Fault, ...]) -> str:
    """The text with faults in it; whether it compiles and differs in behaviour is found out by running it."""
    return apply_edits(source.data, (e for f in faults for e in f.edits))


def functions(
    tree: ast.Module,
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str, ast.ClassDef | None]]:
    """Every outermost function or method with its qualified name and class."""
    stack: list[tuple[ast.AST, str, ast.ClassDef | None]] = [(tree, "", None)]
    while stack:
        node, prefix, owner = stack.pop()
        for child in reversed(list(ast.iter_child_nodes(node))):
            if isinstance(child, ast.ClassDef):
                stack.append((child, f"{prefix}{child.name}.", child))
            elif isinstance(child, ast.If | ast.Try | ast.ExceptHandler) and not isinstance(node, ast.FunctionDef):
                stack.append((child, prefix, owner))
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield child, prefix + child.name, owner


def nodes_of(function: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Nodes below a function with their parents, without decorators, annotations and docstrings."""
    stack: list[tuple[ast.AST, ast.AST]] = [(function, function)]
    while stack:
        node, parent = stack.pop()
        if node is not function:
            yield node, parent
        children: list[ast.AST] = []
        for name, value in ast.iter_fields(node):
            if name in ("decorator_list", "annotation", "returns", "type_params"):
                continue
            children.extend(v for v in (value if isinstance(value, list) else [value]) if isinstance(v, ast.AST))
        if isinstance(node, ast.arguments):
            parent = function
            children = [*node.defaults, *(d for d in node.kw_defaults if d)]
            stack.extend((c, function) for c in reversed(children))
            continue
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            children = [c for c in children if not (isinstance(c, ast.Expr) and isinstance(c.value, ast.Constant))]
        if isinstance(node, ast.JoinedStr):
            continue  # positions inside f-strings differ between versions
        stack.extend((c, node) for c in reversed(children))


def assigned(function: ast.AST) -> set[str]:
    """Parameters and assigned plain names."""
    found = {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
    found |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found


def own_attributes(owner: ast.ClassDef) -> set[str]:
    """Names ``x`` of assignments ``self.x = …`` in a class."""
    return {
        n.attr
        for n in ast.walk(owner)
        if isinstance(n, ast.Attribute)
        and isinstance(n.ctx, ast.Store)
        and isinstance(n.value, ast.Name)
        and n.value.id == "self"
    }
