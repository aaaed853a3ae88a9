"""Which unittest tests a file holds, read from its text: no code of the task runs."""

from __future__ import annotations

import ast
from functools import lru_cache


@lru_cache(maxsize=512)
def find_tests(text: str) -> tuple[str, ...]:
    """``Class.method`` of every test in order of definition; empty when the text is not Python.

    A class counts when one of its bases, followed through the file, is named ``…TestCase``; methods
    inherited from classes of the same file count too.
    """
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    found: list[str] = []
    for name, node in classes.items():
        lineage = _lineage(node, classes)
        if any(_last(base).endswith("TestCase") for cls in lineage for base in cls.bases):
            methods: dict[str, None] = {}
            for cls in lineage:
                methods.update(dict.fromkeys(_methods(cls)))
            found.extend(f"{name}.{method}" for method in methods)
    return tuple(found)


def _lineage(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    lineage = [node]
    for cls in lineage:
        for base in cls.bases:
            parent = classes.get(_last(base)) if isinstance(base, ast.Name) else None
            if parent is not None and parent not in lineage:
                lineage.append(parent)
    return lineage


def _last(base: ast.expr) -> str:
    return base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""


def _methods(cls: ast.ClassDef) -> list[str]:
    return [
        n.name for n in cls.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name.startswith("test")
    ]
