"""Test functions taken out of a test file's text, so that a later patch can bring them back."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def function_of(test: str) -> str:
    """The test function of a test's id: ``path::Class::test[1]`` and ``path::Class.test`` are ``Class.test``."""
    return test.partition("::")[2].partition("[")[0].replace("::", ".")


def functions_in(text: str) -> frozenset[str]:
    """Names of functions that can be taken out, ``Class.test`` for methods. Empty for what is no Python."""
    try:
        return frozenset(name for name, _, _ in _functions(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()


def without(text: str, names: Collection[str]) -> str:
    """The text without these functions; a block that held nothing else gets ``pass``. Raises SyntaxError."""
    tree = ast.parse(text)
    gone: dict[int, str] = {}
    emptied: dict[int, list[_Function]] = {}
    lines = text.split("\n")
    for name, node, owner in _functions(tree):
        if name in names:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            last = node.end_lineno or first
            while last < len(lines) - 1 and not lines[last].strip():  # the gap after it, too
                last += 1
            gone.update(dict.fromkeys(range(first, last + 1), ""))
            emptied.setdefault(id(owner), []).append(node)
    for owner in (n for n in ast.walk(tree) if id(n) in emptied and isinstance(n, ast.ClassDef)):
        if len(emptied[id(owner)]) == len(owner.body):
            node = emptied[id(owner)][0]
            gone[node.lineno] = " " * node.col_offset + "pass"
    kept = [gone.get(n, line) for n, line in enumerate(lines, 1) if gone.get(n, "kept")]
    return "\n".join(kept)


def _functions(tree: ast.Module) -> Iterator[tuple[str, _Function, ast.Module | ast.ClassDef]]:
    stack: list[tuple[str, ast.Module | ast.ClassDef]] = [("", tree)]
    while stack:
        prefix, owner = stack.pop()
        for child in owner.body:
            if isinstance(child, ast.ClassDef):
                stack.append((f"{prefix}{child.name}.", child))
            elif isinstance(child, _Function):
                yield prefix + child.name, child, owner
