"""The map of a program: its functions and where they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache


@lru_cache(maxsize=512)
def functions_in(text: str) -> tuple[tuple[str, int, int], ...]:
    """(qualified name, first line, last line) of every function, decorators included; empty if not Python."""
    try:
        return tuple(_walk(ast.parse(text), ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
            yield prefix + child.name, first, child.end_lineno or child.lineno
            yield from _walk(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _walk(child, f"{prefix}{child.name}.")
        elif not isinstance(child, ast.expr):  # no statement is inside an expression, and those nest deeply
            yield from _walk(child, prefix)
