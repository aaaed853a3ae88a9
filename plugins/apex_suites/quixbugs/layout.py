"""Test cases of a QuixBugs checkout: JSON lines of arguments and result, or a Python file for what JSON cannot say."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from apex_framework.errors import UsageError

from ..programs.program import Check, numbered, parsed
from ..programs.rows import MOST_LINE

MOST_FILE = 4 * 1024**2
_CORRECT, _FAULTY = "correct_python_programs", "python_programs"

PRELUDE = '''import math
import types
from math import inf, nan

from program import {name}


def plain(value):
    """Generators, tuples and lists as lists; two results are compared in this form."""
    if isinstance(value, (list, tuple, types.GeneratorType)):
        return [plain(part) for part in value]
    return value


def close(left, right):
    """Whether two results are equal, numbers with a fraction up to one part in a million."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(close, left, right))
    if isinstance(left, float) or isinstance(right, float):
        return isinstance(left, (int, float)) and isinstance(right, (int, float)) and math.isclose(left, right, rel_tol=1e-6)
    return left == right


def check(test, got, expected):
    """The one way in which results are judged."""
    got = plain(got)
    if not close(got, expected):
        test.fail(f"{{got!r:.200}} != {{expected!r:.200}}")
'''
"""Head of a test file; its cases call ``check``."""


def text_of(path: Path) -> str:
    """A file's text. Raises UsageError: it cannot be read, is no UTF-8, is huge."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_FILE + 1)
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read: {error.strerror or error}") from error
    if len(data) > MOST_FILE:
        raise UsageError(f"{path}: more than {MOST_FILE:,} bytes", "is this a checkout of QuixBugs?")
    try:
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: byte {error.start} is not UTF-8") from None


def checks_of_json(path: Path, name: str) -> tuple[tuple[Check, ...], str]:
    """Checks and the head of their file from lines ``[[argument, ...], result]``. Raises UsageError."""
    found: list[Check] = []
    for number, line in enumerate(text_of(path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            case = json.loads(line) if len(line) <= MOST_LINE else None
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where}: not JSON: {error}", "one case per line: [[argument, ...], result]") from None
        if not isinstance(case, list) or len(case) != 2:
            raise UsageError(f"{where}: no case", "one case per line: [[argument, ...], result]")
        arguments, expected = case
        given = arguments if isinstance(arguments, list) else [arguments]
        call = f"{name}({', '.join(map(repr, given))})"
        found.append(Check(f"check(self, {call}, {expected!r})", f"{call} == {expected!r}"))
    if not found:
        raise UsageError(f"{path}: it holds no case", "one case per line: [[argument, ...], result]")
    return numbered(found), PRELUDE.format(name=name)


def checks_of_python(
    path: Path, name: str, programs: Path
) -> tuple[tuple[Check, ...], str, tuple[tuple[str, str], ...]]:
    """Checks, the head of their file and the files that they import, from functions ``test...``. Raises UsageError."""
    tree = parsed(str(path), path.name, text_of(path))
    head: list[str] = [f"from program import {name}"]
    extra: dict[str, str] = {}
    found: list[Check] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            if node.args.args or node.decorator_list:
                raise UsageError(
                    f"{path}:{node.lineno}: {node.name} has parameters", "it needs a file in json_testcases"
                )
            body = "\n".join(ast.unparse(s) for s in node.body)
            found.append(Check(body, "\n    ".join(body.split("\n"))))
        elif not _chooses(node):
            head.append(ast.unparse(_imported(node, programs, extra)))
    if not found:
        raise UsageError(f"{path}: it holds no test", "is this a checkout of QuixBugs?")
    return numbered(found), "\n\n".join(head), tuple(sorted(extra.items()))


def _chooses(node: ast.stmt) -> bool:
    """Whether a statement chooses between right and wrong programs, or only names pytest, its switch."""
    if isinstance(node, ast.If):
        return "use_correct" in ast.unparse(node.test)
    if isinstance(node, ast.Import):
        return all(alias.name == "pytest" for alias in node.names)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _imported(node: ast.stmt, programs: Path, extra: dict[str, str]) -> ast.stmt:
    """An import of a neighbour becomes one from the task's own files, and the neighbour one of them."""
    if not isinstance(node, ast.ImportFrom):
        return node
    module = (node.module or "").removeprefix(f"{_CORRECT}.").removeprefix(f"{_FAULTY}.")
    neighbour = programs / f"{module}.py"
    if "." not in module and module and neighbour.is_file():
        extra[f"{module}.py"] = text_of(neighbour)
        return ast.copy_location(ast.ImportFrom(module, node.names, 0), node)
    return node
