"""Single edits that add or complete a statement: missing guard and missing return."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from .fragment import Fragment, Site, Splice
from .names import parameters
from .proposal import Proposal

_MOST_RETURNS = 3
_SIMPLE = (ast.Constant, ast.Name, ast.List, ast.Tuple, ast.Dict)


def mined_returns(source: Fragment, sites: list[Site]) -> list[str]:
    """What the shown code returns in simple cases, most frequent first, then ``None``."""
    counted: Counter[str] = Counter()
    for site in sites:
        value = site.node.value if isinstance(site.node, ast.Return) else None
        if isinstance(value, _SIMPLE) and len(text := source.text(value)) <= 24:
            counted[text] += 1
    best = [text for text, _ in counted.most_common(_MOST_RETURNS)]
    return best if "None" in best else [*best[: _MOST_RETURNS - 1], "None"]


def _insert_before(source: Fragment, statement: ast.stmt, lines: list[str]) -> Splice:
    row = source.row(statement)
    indent = source.indent(statement)
    column = len(indent.encode())
    text = "".join(f"{line}\n{indent}" for line in lines)
    return Splice(row, column, row, column, text)


def guards(
    source: Fragment, function: ast.FunctionDef | ast.AsyncFunctionDef, returns: list[str]
) -> Iterator[Proposal]:
    """``if x is None`` and ``if not x`` at the beginning of a function, for each of its parameters."""
    body = [s for s in function.body if source.row(s) >= source.head]
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    if not body or source.row(body[0]) == source.row(function):
        return
    names = [a.arg for a in parameters(function) if a.arg not in ("self", "cls")][:4]
    for place, name in enumerate(names):
        for value in [*returns, *([name] if name not in returns else [])]:
            for test, weight in ((f"{name} is None", 0.8), (f"not {name}", 1.0)):
                splice = _insert_before(source, body[0], [f"if {test}:", f"    return {value}"])
                why = f"if {test}: return {value}"
                yield Proposal(source.row(body[0]), (splice,), "missing_guard", weight / (1 + place), why)


def missing_returns(source: Fragment, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Proposal]:
    """``return`` put before a bare expression, completed where it is empty, or added at the end."""
    nodes = [n for n in ast.walk(function) if isinstance(n, ast.stmt) and source.row(n) >= source.head]
    local = _assigned(function)
    for node in nodes:
        if isinstance(node, ast.Expr) and not isinstance(
            node.value, (ast.Constant, ast.Yield, ast.YieldFrom, ast.Await)
        ):
            weight = 0.3 if isinstance(node.value, ast.Call) else 1.0
            row, column = source.row(node), node.col_offset
            yield Proposal(
                row, (Splice(row, column, row, column, "return "),), "missing_return", weight, "return the value"
            )
        elif isinstance(node, ast.Return) and node.value is None:
            for name in local[:3]:
                yield Proposal(
                    source.row(node), (source.over(node, f"return {name}"),), "missing_return", 0.8, f"return {name}"
                )
    last = function.body[-1]
    if isinstance(last, (ast.Return, ast.Raise)) or source.row(last) < source.head or source.tail:
        return
    if source.row(last) == source.row(function):
        return
    row = source.end_row(last)
    column = len(source.lines[row])
    returns = any(isinstance(n, ast.Return) and n.value is not None for n in nodes)
    own = ["self"] if any(a.arg == "self" for a in parameters(function)) else []
    for place, name in enumerate([*local[:4], *own, "True", "False"]):
        splice = Splice(row, column, row, column, f"\n{source.indent(last)}return {name}")
        weight = (1.0 if returns else 0.5) / (1 + 0.5 * place)
        yield Proposal(source.row(last), (splice,), "missing_return", weight, f"return {name} at the end")


def _assigned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Names assigned in a function, most often used first."""
    stored: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            used[node.id] += 1
            stored[node.id] += isinstance(node.ctx, ast.Store)
    return [name for name, _ in used.most_common() if stored[name]]
