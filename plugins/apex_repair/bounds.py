"""Single edits of bounds: off-by-one and boundary slice."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .fragment import Fragment, Site
from .proposal import Proposal, replacing


def shifted(source: Fragment, node: ast.expr, weight: float) -> Iterator[Proposal]:
    """A value one more or one less."""
    text = source.text(node)
    if isinstance(node, (ast.IfExp, ast.Lambda, ast.BoolOp, ast.Compare, ast.NamedExpr)):
        text = f"({text})"
    for sign in "+-":
        yield replacing(source, node, "off_by_one", weight, f"{text} {sign} 1")


def off_by_one(source: Fragment, site: Site, node: ast.expr) -> Iterator[Proposal]:
    """One more or one less where a value is compared, indexes, counts or is returned."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        if isinstance(node.right, ast.Constant) and node.right.value == 1:
            yield replacing(source, node, "off_by_one", 1.0, source.text(node.left))
        return
    plain = isinstance(node, (ast.Name, ast.Attribute, ast.Call))
    length = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
    if plain and isinstance(site.parent, ast.Compare) and _ordered(site.parent):
        yield from shifted(source, node, 0.7 if length else 0.35)
    elif plain and isinstance(site.parent, ast.Subscript) and site.field == "slice":
        yield from shifted(source, node, 0.6)
    elif (
        length
        or (plain and isinstance(site.parent, ast.Return) and not isinstance(node, ast.Call))
        or (plain and isinstance(site.parent, ast.Assign) and isinstance(node, (ast.Name, ast.Attribute)))
    ):
        yield from shifted(source, node, 0.2)


def _ordered(node: ast.Compare) -> bool:
    return all(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)) for op in node.ops)


def subscript_edits(source: Fragment, node: ast.Subscript) -> Iterator[Proposal]:
    """Other bounds of a slice; the last item for the first."""
    bounds = node.slice
    if not isinstance(bounds, ast.Slice):
        if isinstance(bounds, ast.Constant) and bounds.value in (0, 1) and not isinstance(bounds.value, bool):
            yield replacing(source, bounds, "boundary_slice", 0.5, "-1")
        return
    lower = source.text(bounds.lower) if bounds.lower else ""
    upper = source.text(bounds.upper) if bounds.upper else ""
    step = f":{source.text(bounds.step)}" if bounds.step else ""
    variants: dict[tuple[str, str], float] = {}
    if lower:
        variants["", upper] = 0.5
        variants |= {(more, upper): 0.9 for more in _near(bounds.lower)} if isinstance(bounds.lower, ast.expr) else {}
    else:
        variants["1", upper] = 0.7
    if upper:
        variants[lower, ""] = 0.5
        variants |= {(lower, more): 0.9 for more in _near(bounds.upper)} if isinstance(bounds.upper, ast.expr) else {}
    else:
        variants[lower, "-1"] = 0.7
    for (low, high), weight in variants.items():
        yield replacing(source, bounds, "boundary_slice", weight, f"{low}:{high}{step}")


def _near(node: ast.expr) -> list[str]:
    """A bound one more or one less, as text; of integers that is an off-by-one already."""
    if isinstance(node, (ast.Constant, ast.UnaryOp)):
        return []
    text = ast.unparse(node)
    if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        return [f"{text} + 1", f"{text} - 1"]
    return [f"({text}) + 1", f"({text}) - 1"]
