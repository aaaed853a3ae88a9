"""Single edits of expressions: comparison, arithmetic and boolean operator, constant, argument swap, negation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from .bounds import off_by_one, shifted, subscript_edits
from .fragment import Fragment, Located, Site, Splice
from .proposal import Proposal, brief, replacing

_LARGE = 10**12
"""Integers from here on are taken for masks and hashes, not counts."""
_COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[tuple[str, float], ...]]] = {
    ast.Lt: (r"<(?!=)", (("<=", 1.0), (">", 0.6), (">=", 0.6), ("!=", 0.2))),
    ast.LtE: (r"<=", (("<", 1.0), (">=", 0.6), (">", 0.6), ("==", 0.2))),
    ast.Gt: (r">(?!=)", ((">=", 1.0), ("<", 0.6), ("<=", 0.6), ("!=", 0.2))),
    ast.GtE: (r">=", ((">", 1.0), ("<=", 0.6), ("<", 0.6), ("==", 0.2))),
    ast.Eq: (r"==", (("!=", 1.0), (">=", 0.3), ("<=", 0.3), ("is", 0.1))),
    ast.NotEq: (r"!=", (("==", 1.0), (">", 0.2), ("<", 0.2))),
    ast.Is: (r"\bis\b", (("is not", 1.0), ("==", 0.2))),
    ast.IsNot: (r"\bis\s+not\b", (("is", 1.0), ("!=", 0.2))),
    ast.In: (r"\bin\b", (("not in", 1.0),)),
    ast.NotIn: (r"\bnot\s+in\b", (("in", 1.0),)),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, tuple[tuple[str, float], ...]]] = {
    ast.Add: (r"\+", (("-", 1.0), ("*", 0.3))),
    ast.Sub: (r"-", (("+", 1.0),)),
    ast.Mult: (r"\*(?!\*)", (("+", 0.4), ("/", 0.4), ("//", 0.5), ("**", 0.3))),
    ast.Div: (r"/(?!/)", (("//", 0.8), ("*", 0.8))),
    ast.FloorDiv: (r"//", (("/", 0.7), ("%", 0.6), ("*", 0.5))),
    ast.Mod: (r"%", (("//", 0.9), ("/", 0.3))),
    ast.Pow: (r"\*\*", (("*", 1.0),)),
    ast.LShift: (r"<<", ((">>", 1.0),)),
    ast.RShift: (r">>", (("<<", 1.0),)),
    ast.BitAnd: (r"&", (("|", 1.0), ("^", 0.3))),
    ast.BitOr: (r"\|", (("&", 1.0), ("^", 0.3))),
    ast.BitXor: (r"\^", (("&", 0.7), ("|", 0.7))),
}


def expression_edits(source: Fragment, site: Site, constants: frozenset[str]) -> Iterator[Proposal]:
    """Edits at one expression or augmented assignment; ``constants`` are texts of the source's other constants."""
    node = site.node
    if isinstance(node, ast.Compare):
        yield from _comparison(source, node)
    elif isinstance(node, ast.BinOp):
        yield from _arithmetic(source, node, node.left, node.right, node.op)
    elif isinstance(node, ast.AugAssign):
        yield from _arithmetic(source, node, node.target, node.value, node.op)
    elif isinstance(node, ast.BoolOp):
        yield from _boolean(source, node)
    elif isinstance(node, ast.Constant):
        yield from _constant(source, site, node, constants)
    elif isinstance(node, ast.Call):
        yield from _call(source, node)
    elif isinstance(node, ast.Subscript):
        yield from subscript_edits(source, node)
    elif isinstance(node, ast.UnaryOp):
        yield from _unary(source, node)
    if isinstance(node, ast.expr):
        if site.field in ("test", "ifs") and not isinstance(node, (ast.Constant, ast.UnaryOp)):
            yield replacing(
                source, node, "negation", 0.5 if isinstance(node, ast.Compare) else 1.0, _negated(source, node)
            )
        elif isinstance(site.parent, ast.Return) and isinstance(node, (ast.Compare, ast.BoolOp, ast.Call)):
            yield replacing(source, node, "negation", 0.3, _negated(source, node))
        yield from off_by_one(source, site, node)


def _between(source: Fragment, left: Located, right: Located, pattern: str, new: str) -> Splice | None:
    """A splice over the operator that stands between two operands."""
    start, end = source.over(left, ""), source.over(right, "")
    for row in range(start.end_row, end.row + 1):
        line = source.lines[row]
        begin = start.end_column if row == start.end_row else 0
        stop = end.column if row == end.row else len(line)
        match = re.search(pattern.encode(), line[begin:stop].partition(b"#")[0])
        if match:
            return Splice(row, begin + match.start(), row, begin + match.end(), new)
    return None


def _swapped(
    source: Fragment, left: Located, right: Located, pattern: str, new: str, kind: str, weight: float
) -> Iterator[Proposal]:
    splice = _between(source, left, right, pattern, new)
    if splice:
        old = source.between(splice.row, splice.column, splice.end_row, splice.end_column)
        yield Proposal(splice.row, (splice,), kind, weight, f"{old} -> {new}")


def _comparison(source: Fragment, node: ast.Compare) -> Iterator[Proposal]:
    operands = [node.left, *node.comparators]
    for i, op in enumerate(node.ops):
        pattern, others = _COMPARISONS[type(op)]
        for new, weight in others:
            yield from _swapped(source, operands[i], operands[i + 1], pattern, new, "comparison", weight)


def _arithmetic(
    source: Fragment, node: Located, left: ast.expr, right: ast.expr, op: ast.operator
) -> Iterator[Proposal]:
    known = _ARITHMETIC.get(type(op))
    text = isinstance(left, (ast.Constant, ast.JoinedStr)) and not isinstance(getattr(left, "value", ""), (int, float))
    if known and not text:  # '%' after a literal string formats
        for new, weight in known[1]:
            yield from _swapped(source, left, right, known[0], new, "arithmetic", weight)


def _boolean(source: Fragment, node: ast.BoolOp) -> Iterator[Proposal]:
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    pairs = pairwise(node.values)
    splices = [_between(source, a, b, rf"\b{old}\b", new) for a, b in pairs]
    found = tuple(s for s in splices if s)
    if found and len(found) == len(splices):
        yield Proposal(found[0].row, found, "boolean", 1.0, f"{old} -> {new}")
    if len(found) > 1:
        for splice in found:
            yield Proposal(splice.row, (splice,), "boolean", 0.6, f"{old} -> {new}")


def _constant(source: Fragment, site: Site, node: ast.Constant, constants: frozenset[str]) -> Iterator[Proposal]:
    value = node.value
    text = source.text(node)
    others: dict[str, float] = {}
    if isinstance(value, bool):
        others = {str(not value): 1.0, "None": 0.2}
    elif value is None:
        others = {"False": 0.2, "0": 0.15, "''": 0.15, "[]": 0.15}
    elif isinstance(value, (int, float)):
        others = {"0": 0.5, "1": 0.5} | {c: 0.4 for c in sorted(constants) if re.match(r"\d", c)}
        if value and not isinstance(site.parent, ast.UnaryOp):
            others[f"-{text}"] = 0.6
    elif isinstance(value, str) and isinstance(
        site.parent, (ast.Compare, ast.Call, ast.Assign, ast.Return, ast.BinOp, ast.arguments)
    ):
        others = {"''": 0.3, "' '": 0.2} | {c: 0.35 for c in sorted(constants) if c[:1] in "'\""}
    for new, weight in others.items():
        if new != text:
            yield replacing(source, node, "constant", weight, new)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGE:
        for number in (value + 1, value - 1):
            yield replacing(source, node, "off_by_one", 0.9, str(number) if number >= 0 else f"({number})")


def _call(source: Fragment, node: ast.Call) -> Iterator[Proposal]:
    arguments = [a for a in node.args if not isinstance(a, ast.Starred)]
    if len(arguments) == len(node.args):
        for i in range(len(arguments) - 1):
            one, two = arguments[i], arguments[i + 1]
            a, b = source.text(one), source.text(two)
            if a != b:
                splices = (source.over(one, b), source.over(two, a))
                yield Proposal(
                    source.row(one),
                    splices,
                    "argument_swap",
                    1.0 / (len(arguments) - 1),
                    f"{brief(a)} <-> {brief(b)}",
                )
    if isinstance(node.func, ast.Name) and node.func.id == "range" and 1 <= len(node.args) <= 3:
        if len(node.args) == 1:
            yield replacing(source, node.args[0], "off_by_one", 0.4, f"1, {source.text(node.args[0])}")
        for argument in node.args[:2]:
            if not isinstance(argument, ast.Constant):
                yield from shifted(source, argument, 0.9)


def _unary(source: Fragment, node: ast.UnaryOp) -> Iterator[Proposal]:
    if isinstance(node.op, ast.Not):
        inner = re.sub(r"^not\b\s*", "", source.text(node))
        yield replacing(source, node, "negation", 1.0, inner if inner else "True")
    elif isinstance(node.op, ast.USub):
        yield replacing(source, node, "constant", 0.7, source.text(node.operand))


def _negated(source: Fragment, node: ast.expr) -> str:
    text = source.text(node)
    simple = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return f"not {text}" if simple else f"not ({text})"
