"""Text edits on imports: a copied module imports its copied companions, and nothing written in C stands in for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from .text import Replacement, SourceText


def rewrite_imports(text: str, module: str, is_package: bool, copied: frozenset[str], package: str) -> str:
    """Imports of copied modules lead into ``package``; relative imports of others become absolute.

    Every statement keeps the number of its first line.
    """
    source = SourceText(text)
    edits: list[Replacement] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import) and any(covers(a.name, copied) for a in node.names):
            edits.append(Replacement(*source.span(node), "; ".join(plain(a, copied, package) for a in node.names)))
        elif isinstance(node, ast.ImportFrom):
            edits.extend(from_edits(source, node, absolute(node, module, is_package), copied, package))
    return source.apply(edits)


def covers(name: str, copied: Iterable[str]) -> bool:
    return any(c == name or c.startswith(name + ".") for c in copied)


def absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The absolute name of the module that an import reads from."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    base = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*base, *([node.module] if node.module else [])])


def plain(alias: ast.alias, copied: frozenset[str], package: str) -> str:
    if not covers(alias.name, copied):
        return f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
    if alias.asname:
        return f"import {package}.{alias.name} as {alias.asname}"
    top = alias.name.partition(".")[0]
    deep = f"import {package}.{alias.name}; " if "." in alias.name else ""
    return f"{deep}from {package} import {top}"


def from_edits(
    source: SourceText, node: ast.ImportFrom, name: str, copied: frozenset[str], package: str
) -> list[Replacement]:
    inner = [a for a in node.names if f"{name}.{a.name}" in copied]
    outer = [a for a in node.names if a not in inner]
    if name in copied or (inner and not outer):
        target = f"{package}.{name}"
    elif inner:
        names = [", ".join(a.name + (f" as {a.asname}" if a.asname else "") for a in part) for part in (inner, outer)]
        both = f"from {package}.{name} import {names[0]}; from {name} import {names[1]}"
        return [Replacement(*source.span(node), both)]
    else:
        target = name
    if node.level and target != name:
        return []  # a relative import between copied modules is right as it is
    if target == node.module and not node.level:
        return []
    start, end = source.span(node)
    head = re.match(rb"from\s+[.\w\s]+?\s+import\b", source.data[start:end])
    return [Replacement(start, start + head.end(), f"from {target} import")] if head else []


def without_accelerators(text: str, accelerators: frozenset[str]) -> str:
    """Top-level ``try: from _c import …`` blocks become what their handler does when the C module is missing."""
    if not accelerators:
        return text
    source = SourceText(text)
    edits: list[Replacement] = []
    for node in source.tree.body:
        if isinstance(node, ast.Try) and node.handlers and imports_only(node.body, accelerators):
            start, end = source.span(node)
            first = next(n for n, s in enumerate(node.body) if isinstance(s, ast.Import | ast.ImportFrom))
            body = [*node.body[:first], *node.handlers[0].body]
            kept = [ast.unparse(s) for s in body if not isinstance(s, ast.Pass)]
            lines = source.data[start:end].count(b"\n") + 1
            edits.append(
                Replacement(start, end, "\n".join([*kept, *[""] * (lines - len(kept))][: max(lines, len(kept))]))
            )
        elif isinstance(node, ast.ImportFrom) and node.module in accelerators and not node.level:
            edits.append(Replacement(*source.span(node), ""))
    return source.apply(edits)


def imports_only(body: list[ast.stmt], accelerators: frozenset[str]) -> bool:
    """Whether a block does nothing but import from C modules (and delete or rename what they brought)."""
    wanted = [s for s in body if isinstance(s, ast.ImportFrom) and s.module in accelerators]
    wanted += [s for s in body if isinstance(s, ast.Import) and all(a.name in accelerators for a in s.names)]  # type: ignore[misc]  # the isinstance narrows the body
    return bool(wanted) and all(s in wanted or isinstance(s, ast.Delete | ast.Assign) for s in body)
