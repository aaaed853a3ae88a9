"""Operators whose mistakes the embedded solver knows how to look for (by name, not by mirror image)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .faults import Entry, Place
from .text import Replacement

Changes = Iterator[tuple[Replacement, ...]]

COMPARED = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<",)),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">",)),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
COMPUTED = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("+", "//")),
    ast.FloorDiv: ("//", ("*", "%")),
    ast.Div: ("/", ("*",)),
    ast.Mod: ("%", ("//",)),
    ast.BitAnd: ("&", ("|",)),
    ast.BitOr: ("|", ("&",)),
    ast.LShift: ("<<", (">>",)),
    ast.RShift: (">>", ("<<",)),
}


def comparison(place: Place) -> Changes:
    """``<`` for ``<=``, ``==`` for ``!=``, …"""
    node = place.node
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        old, others = COMPARED[type(node.ops[0])]
        for new in others:
            for edit in place.between(node.left, node.comparators[0], old, new):
                yield (edit,)


def off_by_one(place: Place) -> Changes:
    """One more or one less: ``n + 1`` without its one, ``range`` and indices moved by one."""
    node = place.node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and is_int(node.right, 1):
        yield (place.replace(node, place.text(node.left)),)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range" and node.args:
        last = node.args[min(1, len(node.args) - 1)]
        yield (place.replace(last, f"{place.text(last)} - 1"),)
        if len(node.args) > 1:
            yield (place.replace(node.args[0], f"{place.text(node.args[0])} + 1"),)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name | ast.BinOp):
        yield (place.replace(node.slice, f"{place.text(node.slice)} + 1"),)
    if isinstance(node, ast.Subscript) and is_int(node.slice):
        number = node.slice.value  # type: ignore[attr-defined]  # is_int has checked the node
        yield (place.replace(node.slice, str(number + 1)),)
        if number:
            yield (place.replace(node.slice, str(number - 1)),)


def operator(place: Place) -> Changes:
    """Another arithmetic, bitwise or boolean operator."""
    node = place.node
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED and not is_text(node.left):
        old, others = COMPUTED[type(node.op)]
        for new in others:
            for edit in place.between(node.left, node.right, old, new):
                yield (edit,)
    if isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            for edit in place.between(left, right, old, new):
                yield (edit,)
    if isinstance(node, ast.AugAssign) and type(node.op) in (ast.Add, ast.Sub):
        old, new = ("+=", "-=") if isinstance(node.op, ast.Add) else ("-=", "+=")
        for edit in place.between(node.target, node.value, old, new):
            yield (edit,)


def constant(place: Place) -> Changes:
    """Another number, truth value or short text."""
    node = place.node
    if not isinstance(node, ast.Constant) or isinstance(place.parent, ast.Expr | ast.JoinedStr | ast.FormattedValue):
        return
    if node.value is True or node.value is False:
        yield (place.replace(node, str(not node.value)),)
    elif is_int(node):
        number = int(node.value)  # type: ignore[arg-type]  # is_int has checked the node
        for new in (1,) if number == 0 else (0, 2) if number == 1 else (number + 1, number // 2):
            yield (place.replace(node, str(new)),)
    elif isinstance(node.value, str) and place.text(node)[:1] in "'\"" and place.text(node)[:3] not in ("'''", '"""'):
        if node.value == "":
            yield (place.replace(node, "' '"),)
        elif len(node.value) <= 3 and node.value.isprintable() and len(node.value) > 1:
            yield (place.replace(node, repr(node.value[:-1])),)
        elif node.value == " ":
            yield (place.replace(node, "''"),)


def argument_swap(place: Place) -> Changes:
    """Two neighbouring arguments in each other's place."""
    node = place.node
    if isinstance(node, ast.Call):
        for a, b in zip(node.args, node.args[1:], strict=False):
            if place.text(a) != place.text(b) and not any(isinstance(x, ast.Starred) for x in (a, b)):
                yield place.replace(a, place.text(b)), place.replace(b, place.text(a))


def missing_guard(place: Place) -> Changes:
    """A check that is not made: an ``if`` that only leaves, or the first part of a conjunction."""
    node = place.node
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        start, _ = place.source.span(node.values[0])
        end, _ = place.source.span(node.values[1])
        if b"(" not in place.source.data[place.source.span(node.values[0])[1] : end]:
            yield (Replacement(start, end, ""),)
    leaves = (ast.Return, ast.Raise, ast.Continue, ast.Break)
    if (
        isinstance(node, ast.If)
        and not node.orelse
        and isinstance(node.body[-1], leaves)
        and len(node.body) <= 2
        and not is_elif(place, node)
    ):
        yield from removed(place, node)


def removed(place: Place, node: ast.stmt) -> Changes:
    """The edit that takes a statement away; ``pass`` stays where it was alone in its block."""
    start, end = place.source.span(node)
    blocks = [getattr(place.parent, name, None) for name in ("body", "orelse", "finalbody")]
    block = next((b for b in blocks if isinstance(b, list) and node in b), None)
    if block is None:
        return
    if sum(not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)) for s in block) == 1:
        yield (Replacement(start, end, "pass"),)
        return
    first, last = place.source.starts[node.lineno - 1], place.source.starts[node.end_lineno or node.lineno]
    before, after = place.source.data[first:start], place.source.data[end:last]
    if not before.strip() and not after.split(b"#")[0].strip():
        yield (Replacement(first, last, ""),)


def is_elif(place: Place, node: ast.If) -> bool:
    """Whether an ``if`` is written as ``elif``."""
    start, _ = place.source.span(node)
    return place.source.data[start : start + 4] == b"elif"


def wrong_name(place: Place) -> Changes:
    """Another name of the same function."""
    node = place.node
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in place.names:
        others = [n for n in place.names if n not in (node.id, "self", "cls")]
        others.sort(key=lambda n: (n[0] != node.id[0], abs(len(n) - len(node.id)), n))
        for other in others[:2]:
            if node.id != "self":
                yield (place.replace(node, other),)


def missing_return(place: Place) -> Changes:
    """A value that is computed but not returned."""
    node = place.node
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield (place.replace(node, place.text(node.value)),)


def boundary_slice(place: Place) -> Changes:
    """A slice that begins or ends one too early or too late, or has lost a bound."""
    node = place.node
    if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)) or node.slice.step:
        return
    lower, upper = node.slice.lower, node.slice.upper
    if lower is not None:
        yield (place.replace(lower, bumped(place, lower)),)
        if upper is not None:
            yield (place.replace(lower, ""),)
    if upper is not None:
        yield (place.replace(upper, bumped(place, upper)),)
        if lower is not None:
            yield (place.replace(upper, ""),)


def bumped(place: Place, node: ast.expr) -> str:
    """An expression plus one, constants computed."""
    if is_int(node):
        return str(node.value + 1)  # type: ignore[attr-defined]  # is_int has checked the node
    return f"{place.text(node)} + 1"


def condition_negation(place: Place) -> Changes:
    """A condition turned round."""
    node = place.node
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        test = node.test
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield (place.replace(test, place.text(test.operand)),)
        elif not isinstance(test, ast.Constant):
            text = place.text(test)
            simple = isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
            yield (place.replace(test, f"not {text}" if simple else f"not ({text})"),)


def is_int(node: ast.AST, value: int | None = None) -> bool:
    """Whether a node is a plain integer, or this one."""
    return isinstance(node, ast.Constant) and type(node.value) is int and (value is None or node.value == value)


def is_text(node: ast.AST) -> bool:
    """Whether a node is a text literal (``%`` formats it)."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


KNOWN = tuple(
    Entry(act.__name__, True, act)
    for act in (
        comparison,
        off_by_one,
        operator,
        constant,
        argument_swap,
        missing_guard,
        wrong_name,
        missing_return,
        boundary_slice,
        condition_negation,
    )
)
