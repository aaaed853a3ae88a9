"""A module's public classes as Markdown: docstrings, fields and signatures, read from its source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType


def words(text: str) -> str:
    """Docstring mark-up as Markdown, lines joined within paragraphs."""
    paragraphs = inspect.cleandoc(text).replace("``", "`").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def contracts(module: ModuleType, level: str) -> Iterator[str]:
    """Its docstring, and every public class under a heading of this level."""
    tree = ast.parse(inspect.getsource(module))
    yield words(ast.get_docstring(tree) or "")
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield f"{level} {node.name}"
            yield words(ast.get_docstring(node) or "")
            yield "\n".join(_members(node))


def _members(node: ast.ClassDef) -> Iterator[str]:
    for position, item in enumerate(node.body):
        after = node.body[position + 1] if position + 1 < len(node.body) else None
        if isinstance(item, ast.AnnAssign | ast.Assign):
            target = item.target if isinstance(item, ast.AnnAssign) else item.targets[0]
            if ast.unparse(target).startswith("_"):
                continue
            doc = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            yield _member(ast.unparse(item), str(doc))
        elif isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and not item.name.startswith("_"):
            is_property = any(ast.unparse(d) == "property" for d in item.decorator_list)
            returns = ast.unparse(item.returns) if item.returns else ""
            prefix = "async " if isinstance(item, ast.AsyncFunctionDef) else ""
            signature = f"({ast.unparse(item.args)})".replace("(self, ", "(").replace("(self)", "()")
            shown = f"{item.name}: {returns}" if is_property else f"{prefix}{item.name}{signature} -> {returns}"
            yield _member(shown, ast.get_docstring(item) or "")


def _member(shown: str, doc: str) -> str:
    text = words(doc).replace("\n\n", " ")
    return f"* `{shown}`" + (f": {text}" if text else "")
