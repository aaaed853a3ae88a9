"""Operators that the embedded solver has no edit for."""

from __future__ import annotations

import ast

from .faults import Entry, Place
from .operators_known import KNOWN, Changes, is_elif, removed
from .text import Replacement

METHODS = {
    "startswith": "endswith",
    "endswith": "startswith",
    "find": "rfind",
    "rfind": "find",
    "index": "find",
    "lstrip": "rstrip",
    "rstrip": "lstrip",
    "lower": "upper",
    "upper": "lower",
    "split": "rsplit",
    "partition": "rpartition",
    "rpartition": "partition",
    "append": "extend",
    "extend": "append",
    "match": "search",
    "fullmatch": "match",
    "search": "match",
    "ljust": "rjust",
    "rjust": "ljust",
    "isdigit": "isalnum",
    "isspace": "isalpha",
    "keys": "values",
    "items": "keys",
    "popleft": "pop",
    "appendleft": "append",
    "add": "discard",
    "setdefault": "get",
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
NEIGHBOURS = {
    "ValueError": "TypeError",
    "TypeError": "ValueError",
    "KeyError": "IndexError",
    "IndexError": "KeyError",
    "AttributeError": "KeyError",
    "StopIteration": "ValueError",
    "LookupError": "ValueError",
    "OverflowError": "ValueError",
    "UnicodeError": "TypeError",
}
DROPPED = frozenset(
    [
        "strip",
        "lstrip",
        "rstrip",
        "lower",
        "upper",
        "casefold",
        "copy",
        "title",
        "capitalize",
        "expandtabs",
        "decode",
        "encode",
    ]
)
UNWRAPPED = frozenset(
    ["int", "str", "float", "list", "tuple", "sorted", "abs", "reversed", "bytes", "bool", "repr", "len"]
)


def removed_statement(place: Place) -> Changes:
    """A step that is not taken."""
    node = place.node
    if isinstance(node, ast.Assign | ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield from removed(place, node)


def early_return(place: Place) -> Changes:
    """A result returned after the first turn of a loop."""
    node = place.node
    block = getattr(place.parent, "body", [])
    if not isinstance(node, ast.For) or not isinstance(block, list) or node not in block:
        return
    after = block[block.index(node) + 1 :]
    if len(after) == 1 and isinstance(after[0], ast.Return) and node.lineno != node.body[0].lineno:
        start, _ = place.source.span(node.body[0])
        indent = place.source.data[place.source.starts[node.body[0].lineno - 1] : start].decode()
        end = place.source.starts[node.body[-1].end_lineno or 0]
        yield (Replacement(end, end, f"{indent}{place.text(after[0])}\n"),)


def wrong_default(place: Place) -> Changes:
    """A parameter whose default is another one."""
    node = place.node
    if place.parent is not place.function or not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, bool):
        yield (place.replace(node, str(not value)),)
    elif isinstance(value, int):
        yield (place.replace(node, str(1 if value == 0 else value - 1)),)
    elif value in ("", " "):
        yield (place.replace(node, "' '" if value == "" else "''"),)


def exception_type(place: Place) -> Changes:
    """A neighbouring exception is raised or expected."""
    node = place.node
    names: list[ast.expr] = []
    if isinstance(node, ast.Raise) and node.exc is not None:
        names = [node.exc.func if isinstance(node.exc, ast.Call) else node.exc]
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        names = [node.type, *(node.type.elts if isinstance(node.type, ast.Tuple) else ())]
    for name in names:
        if isinstance(name, ast.Name) and name.id in NEIGHBOURS:
            yield (place.replace(name, NEIGHBOURS[name.id]),)


def missing_call(place: Place) -> Changes:
    """A conversion that is not made: ``x.strip()`` as ``x``, ``int(x)`` as ``x``."""
    node = place.node
    if not isinstance(node, ast.Call) or node.keywords or isinstance(place.parent, ast.Expr):
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr in DROPPED:
        yield (place.replace(node, place.text(node.func.value)),)
    if (
        isinstance(node.func, ast.Name)
        and node.func.id in UNWRAPPED
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    ):
        yield (place.replace(node, place.text(node.args[0])),)


def swapped_branches(place: Place) -> Changes:
    """Each branch does what the other should."""
    node = place.node
    if isinstance(node, ast.IfExp) and place.text(node.body) != place.text(node.orelse):
        yield place.replace(node.body, place.text(node.orelse)), place.replace(node.orelse, place.text(node.body))
    if isinstance(node, ast.If) and len(node.body) == 1 and len(node.orelse) == 1 and not is_elif(place, node):
        a, b = node.body[0], node.orelse[0]
        simple = all(isinstance(s, ast.Return | ast.Assign | ast.Expr | ast.AugAssign) for s in (a, b))
        if simple and place.text(a) != place.text(b):
            yield place.replace(a, place.text(b)), place.replace(b, place.text(a))


def loop_control(place: Place) -> Changes:
    """``break`` for ``continue`` and the other way round."""
    node = place.node
    if isinstance(node, ast.Break | ast.Continue):
        yield (place.replace(node, "continue" if isinstance(node, ast.Break) else "break"),)


def wrong_method(place: Place) -> Changes:
    """A neighbouring method or function is called."""
    node = place.node
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        _, end = place.source.span(node.func)
        yield (Replacement(end - len(node.func.attr.encode()), end, METHODS[node.func.attr]),)
    if isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
        yield (place.replace(node.func, FUNCTIONS[node.func.id]),)


def statement_order(place: Place) -> Changes:
    """Two neighbouring steps in the wrong order."""
    node = place.node
    plain = (ast.Assign, ast.AugAssign, ast.Expr)
    for name in ("body", "orelse"):
        block = getattr(place.parent, name, None)
        if isinstance(block, list) and node in block[:-1] and isinstance(node, plain):
            other = block[block.index(node) + 1]
            if (
                isinstance(other, plain)
                and other.lineno > (node.end_lineno or 0)
                and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            ):
                yield place.replace(node, place.text(other)), place.replace(other, place.text(node))


def lost_total(place: Place) -> Changes:
    """A running value that is overwritten instead of added to."""
    node = place.node
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.BitOr | ast.Mult):
        yield (place.replace(node, f"{place.text(node.target)} = {place.text(node.value)}"),)


def wrong_attribute(place: Place) -> Changes:
    """Another attribute of the same object."""
    node = place.node
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and node.attr in place.attributes
    ):
        others = sorted(
            (a for a in place.attributes if a != node.attr),
            key=lambda a: (a[:2] != node.attr[:2], abs(len(a) - len(node.attr)), a),
        )
        for other in others[:1]:
            yield (place.replace(node, f"self.{other}"),)


def lost_else(place: Place) -> Changes:
    """What should happen otherwise does not happen."""
    node = place.node
    if (
        isinstance(node, ast.If)
        and node.orelse
        and not (isinstance(node.orelse[0], ast.If) and is_elif_of(place, node))
    ):
        first, last = node.orelse[0], node.orelse[-1]
        if first.lineno > (node.body[-1].end_lineno or 0):
            start, _ = place.source.span(first)
            _, end = place.source.span(last)
            yield (Replacement(start, end, "pass"),)


def is_elif_of(place: Place, node: ast.If) -> bool:
    """Whether the other branch of an ``if`` is an ``elif``."""
    return isinstance(node.orelse[0], ast.If) and is_elif(place, node.orelse[0])


def swapped_targets(place: Place) -> Changes:
    """Parts of a value unpacked into each other's names."""
    node = place.node
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Store) and len(node.elts) >= 2:
        a, b = node.elts[:2]
        if not any(isinstance(x, ast.Starred) for x in (a, b)):
            yield place.replace(a, place.text(b)), place.replace(b, place.text(a))


OTHER = tuple(
    Entry(act.__name__, False, act)
    for act in (
        removed_statement,
        early_return,
        wrong_default,
        exception_type,
        missing_call,
        swapped_branches,
        loop_control,
        wrong_method,
        statement_order,
        lost_total,
        wrong_attribute,
        lost_else,
        swapped_targets,
    )
)

CATALOGUE = KNOWN + OTHER
"""Every operator."""
