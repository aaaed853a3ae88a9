"""Guard 1: no code of the agents or the solver knows the topology or the phase, or can reach who does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[2] / "plugins"
FILES = sorted(f for package in ("apex_agents", "apex_repair") for f in (PLUGINS / package).rglob("*.py"))

FORBIDDEN = re.compile(r"topolog|phase|epoch|\b(star|chain|flat|planning|implementation)\b|route", re.IGNORECASE)
ALLOWED = {"RouteResult"}
"""Names of the contracts that say nothing about the shape."""
ROOMS = ("runtime", "episode", "session", "experiment", "cli", "catalog", "plugins", "services")


def docstrings(tree: ast.Module) -> set[int]:
    """Ids of the nodes that are documentation."""
    found = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                found.add(id(statement.value))
    return found


def words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text) of every name, attribute, argument, keyword and string that is not documentation."""
    documentation = docstrings(tree)
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name):
            yield line, node.id
        elif isinstance(node, ast.Attribute):
            yield line, node.attr
        elif isinstance(node, ast.arg | ast.keyword):
            yield line, node.arg or ""
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.alias):
            yield line, node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield line, node.value


def wrong_words(source: str) -> list[str]:
    """Everything that names what must not be known."""
    return [
        f"{line}: {text!r}" for line, text in words(ast.parse(source)) if text not in ALLOWED and FORBIDDEN.search(text)
    ]


def wrong_imports(source: str, package: str) -> list[str]:
    """Imports of anything but the contracts and the standard library."""
    wrong = []
    for node in ast.walk(ast.parse(source)):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [f"{node.module}.{a.name}" for a in node.names] + [node.module or ""]
        for module in modules:
            head, _, rest = module.partition(".")
            if (
                (head == "apex_framework" and rest.split(".")[0] in ROOMS)
                or (head.startswith("apex_") and head not in ("apex_framework", package))
                or (head in ("importlib", "inspect", "gc") and package == "apex_agents")
            ):
                wrong.append(module)
    return wrong


@pytest.mark.parametrize("file", FILES, ids=lambda f: f"{f.parent.name}/{f.name}")
def test_no_word_of_topology_or_phase(file: Path) -> None:
    assert wrong_words(file.read_text()) == []


@pytest.mark.parametrize("file", FILES, ids=lambda f: f"{f.parent.name}/{f.name}")
def test_no_way_to_those_who_know(file: Path) -> None:
    assert wrong_imports(file.read_text(), file.relative_to(PLUGINS).parts[0]) == []


def test_the_check_sees_what_it_looks_for() -> None:
    assert wrong_words('"""About topologies."""\nx = 1\n') == []
    for source in ("x.topology", "def f(phase): ...", "f('star')", "x.topo_epoch", "getattr(x, 'epoch')", "chain = 1"):
        assert wrong_words(source), source
    assert wrong_imports("from apex_framework.runtime import Router", "apex_agents")
    assert wrong_imports("from apex_framework import episode", "apex_agents")
    assert wrong_imports("import apex_topologies.star", "apex_agents")
    assert wrong_imports("from apex_framework.interfaces import Message\nimport ast", "apex_agents") == []
