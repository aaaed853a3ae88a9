"""Single edits that put another name of the scope in a name's place."""

from __future__ import annotations

import ast
import builtins
import difflib
from collections.abc import Iterator
from functools import lru_cache

from .fragment import Fragment, Site
from .proposal import Proposal

_MOST = 6
"""Replacements proposed per name."""
_OPPOSITES = (
    "min max", "first last", "start end", "start stop", "begin end", "left right", "lo hi", "low high", "lower upper", "head tail",
    "old new", "prev next", "row col", "width height", "key value", "k v", "i j", "j k", "x y", "a b", "m n", "src dst", "any all",
    "append extend", "index count", "lstrip rstrip", "startswith endswith", "find rfind", "partition rpartition", "floor ceil",
)  # fmt: skip
_PAIRS = frozenset(frozenset(pair.split()) for pair in _OPPOSITES)


@lru_cache(maxsize=1 << 14)
def likeness(one: str, other: str) -> float:
    """How easily two names are taken for each other, 0 to 1."""
    if frozenset((one, other)) in _PAIRS:
        return 1.0
    one, other = sorted((one, other))
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


class Names:
    """The names of a fragment: variables per scope, attributes per owner."""

    def __init__(self, sites: list[Site]) -> None:
        self._variables: dict[int, dict[str, int]] = {}
        self._attributes: dict[str, dict[str, None]] = {}
        self.called: set[str] = set()
        for site in sites:
            node = site.node
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                self._variables.setdefault(id(node), {}).update((a.arg, 0) for a in parameters(node))
            elif isinstance(node, ast.Name):
                if isinstance(site.parent, ast.Call) and site.field == "func":
                    self.called.add(node.id)
                elif isinstance(node.ctx, ast.Store) or not hasattr(builtins, node.id):
                    self._variables.setdefault(id(site.scope), {}).setdefault(node.id, node.lineno)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                self._attributes.setdefault(node.value.id, {}).setdefault(node.attr)

    def edits(self, source: Fragment, site: Site, missing: frozenset[str]) -> Iterator[Proposal]:
        """Other names in the place of this one; ``missing`` are names that a failure calls unknown."""
        node = site.node
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            called = isinstance(site.parent, ast.Call) and site.field == "func"
            if called and not (hasattr(builtins, node.id) or node.id in missing):
                pool = sorted(self.called)
            elif called:
                pool = [name for pair in _PAIRS if node.id in pair for name in pair]
            else:
                known = self._variables.get(id(site.scope), {})
                pool = [name for name, line in known.items() if line <= node.lineno]
            old, whole = node.id, node.id
        elif isinstance(node, ast.Attribute) and isinstance(
            node.value, (ast.Name, ast.Attribute, ast.Call, ast.Constant)
        ):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            pool = [*self._attributes.get(owner, {}), *(n for pair in _PAIRS if node.attr in pair for n in pair)]
            old, whole = node.attr, source.text(node)
        else:
            return
        ranked = sorted({name for name in pool if name != old}, key=lambda name: (-likeness(old, name), name))[:_MOST]
        for name in ranked:
            text = whole[: len(whole) - len(old)] + name
            weight = (0.3 + 0.7 * likeness(old, name)) * (1.0 if isinstance(node, ast.Name) else 0.7)
            yield Proposal(
                source.end_row(node), (source.over(node, text),), "wrong_name", weight, f"{old} -> {name}", old
            )


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    """All parameters of a function, in order."""
    a = node.args
    rest = [x for x in (a.vararg, a.kwarg) if x]
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *rest]
