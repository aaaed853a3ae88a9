"""A program with checks, as a data file gives it, and the files that a task makes of it."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from apex_framework.errors import UsageError

from .rows import MEND

PROGRAM = "program.py"
VISIBLE = "tests/test_visible.py"
HIDDEN = "tests/test_hidden.py"

_CLASS = "TestProgram"
_ID = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the program must do: the statements of a test, and how it is told in an issue."""

    body: str
    shown: str
    number: int = 0

    @property
    def method(self) -> str:
        """Name of its test."""
        return f"test_{self.number}"


@dataclass(frozen=True, slots=True)
class Program:
    """A right program and its checks; ``faulty`` is the wrong one where the data has it."""

    id: str
    split: str
    entry: str
    source: str
    checks: tuple[Check, ...]
    prelude: str = ""
    """Statements at the head of its test file."""
    faulty: str = ""
    family: str = ""
    extra: tuple[tuple[str, str], ...] = ()
    """Further files of the task: path and text."""

    @property
    def digest(self) -> str:
        """Hash of all of it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def safe_id(name: str) -> str:
    """A task's id that can be part of a path: ``HumanEval/0`` is ``HumanEval-0``."""
    return _ID.sub("-", name).strip("-.") or "task"


def numbered(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The checks, numbered from 1."""
    return tuple(replace(check, number=n) for n, check in enumerate(checks, 1))


def test_id(path: str, check: Check) -> str:
    """As workspaces name it."""
    return f"{path}::{_CLASS}.{check.method}"


def render(prelude: str, checks: Sequence[Check]) -> str:
    """A test file."""
    head = f"import unittest\n\n{prelude.strip()}\n\n\nclass {_CLASS}(unittest.TestCase):"
    methods = [f"    def {c.method}(self):\n{indented(c.body)}\n" for c in checks]
    return "\n".join([head, *methods])


def indented(body: str) -> str:
    """Statements as the body of a method; the lines of a text that spans several are left alone."""
    tree = ast.parse(body)
    inside = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr)
        for line in range(node.lineno + 1, (node.end_lineno or 0) + 1)
    }
    lines = body.split("\n")
    return "\n".join(text if n in inside or not text else f"        {text}" for n, text in enumerate(lines, 1))


def parsed(where: str, what: str, text: str) -> ast.Module:
    """The tree of a data file's Python. Raises UsageError."""
    try:
        compile(text, what, "exec", dont_inherit=True)
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        at = f" (its line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise UsageError(f"{where}: field {what!r} is no Python: {reason}{at}", MEND) from None


def check_of(statement: ast.stmt) -> Check | None:
    """The check that a statement makes; None when it checks nothing."""
    if not any(isinstance(node, ast.Assert) for node in ast.walk(statement)):
        return None
    if not isinstance(statement, ast.Assert):
        return Check(ast.unparse(statement), ast.unparse(statement).split("\n", 1)[0])
    test = statement.test
    if isinstance(test, ast.Constant):
        return None
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        left, right = ast.unparse(test.left), ast.unparse(test.comparators[0])
        return Check(f"self.assertEqual({left}, {right})", f"{left} == {right}")
    return Check(f"self.assertTrue({ast.unparse(test)})", ast.unparse(test))


def checks_of(statements: Sequence[ast.stmt]) -> tuple[Check, ...]:
    """The checks among a function's statements; those before a check that check nothing are repeated with it."""
    before: list[str] = []
    found: list[Check] = []
    for statement in statements:
        check = check_of(statement)
        if check is not None:
            found.append(replace(check, body="\n".join([*before, check.body])))
        elif not isinstance(statement, ast.Assert | ast.Pass) and not _is_text(statement):
            before.append(ast.unparse(statement))
    return numbered(found)


def defined(tree: ast.Module) -> set[str]:
    """Names that a module defines at its top."""
    names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(a.asname or a.name).partition(".")[0] for a in node.names}
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names


def used(nodes: Sequence[ast.AST]) -> set[str]:
    """Names that are read anywhere in these."""
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
