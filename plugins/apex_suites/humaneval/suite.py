"""The suites ``humaneval`` and ``humanevalfix``."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from apex_framework.errors import UsageError
from apex_framework.ports import derive_seed

from ..programs.program import Check, Program, checks_of, defined, parsed, safe_id, used
from ..programs.rows import Row, read_rows, unique
from ..programs.suite import INJECTED, ProgramSuite

_MARK = "METADATA"


class HumanEvalSuite(ProgramSuite):
    """OpenAI's HumanEval turned round: the canonical solution with an injected fault, to be repaired.

    A fifth of the tasks each are ``train`` and ``dev``, the others ``test``; which, follows from a task's id alone.
    """

    name = "humaneval"
    wanted = "HumanEval.jsonl (or .jsonl.gz, of openai/human-eval)"
    caveats = (INJECTED, "HumanEval's solutions have been public since 2021: a language model may know them by heart.")

    def read(self) -> Sequence[Program]:
        rows = read_rows(self.data)
        made = [self._program(row) for row in rows]
        unique(rows, [p.id for p in made])
        return made

    def _program(self, row: Row) -> Program:
        name = row.text("task_id")
        head, entry = row.text("prompt"), row.text("entry_point")
        source = _ended(head + row.text("canonical_solution"))
        return program(row, name, entry, source, row.text("test"), split_of(name))


class HumanEvalFixSuite(ProgramSuite):
    """The Python part of HumanEvalPack, with the faults that people wrote for it. All of it is ``test``."""

    name = "humanevalfix"
    wanted = "humanevalpack.jsonl (bigcode/humanevalpack, Python)"
    splits = ("test",)
    caveats = ("HumanEvalPack and its solutions have been public since 2023: a language model may know them by heart.",)

    def read(self) -> Sequence[Program]:
        rows = read_rows(self.data)
        made = [self._program(row) for row in rows]
        unique(rows, [p.id for p in made])
        return made

    def _program(self, row: Row) -> Program:
        name = row.text("task_id")
        if not name.startswith("Python/"):
            raise UsageError(
                f"{row.where}: task {name!r} is not of the Python part", "take its file python/data/humanevalpack.jsonl"
            )
        head, entry = row.text("prompt"), row.text("entry_point")
        right, wrong = (_ended(head + row.text(f)) for f in ("canonical_solution", "buggy_solution"))
        parsed(row.where, "buggy_solution", wrong)
        family = safe_id(row.text("bug_type", ""))
        return program(row, name, entry, right, row.text("test"), "test", faulty=wrong, family=family)


def split_of(name: str) -> str:
    """The split of a task, from its id."""
    place = derive_seed("humaneval", "split", name) % 5
    return ("train", "dev", "test", "test", "test")[place]


def program(
    row: Row, name: str, entry: str, source: str, test: str, split: str, *, faulty: str = "", family: str = ""
) -> Program:
    """A row's program, with the checks of its function ``check(candidate)``. Raises UsageError."""
    tree = parsed(row.where, "canonical_solution", source)
    if entry not in defined(tree):
        raise UsageError(f"{row.where}: the program defines no {entry!r}, which field 'entry_point' names")
    tests = parsed(row.where, "test", test)
    found = [n for n in tests.body if isinstance(n, ast.FunctionDef) and n.name == "check"]
    if len(found) != 1 or len(found[0].args.args) != 1:
        raise UsageError(
            f"{row.where}: field 'test' defines no check(candidate)", "is this another version of the data?"
        )
    check = found[0]
    ast.NodeTransformer.visit(_Renamed(check.args.args[0].arg, entry), check)
    around = [n for n in tests.body if n is not check and not _is_call_of_check(n) and not _is_metadata(n)]
    names = sorted((used([check, *around]) & defined(tree)) | {entry})
    prelude = "\n".join([f"from program import {', '.join(names)}", *map(ast.unparse, around)])
    checks: tuple[Check, ...] = checks_of(check.body)
    return Program(safe_id(name), split, entry, source, checks, prelude, faulty, family)


class _Renamed(ast.NodeTransformer):
    """``candidate`` becomes the function's own name."""

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self._new, node.ctx), node) if node.id == self._old else node


def _is_metadata(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == _MARK for t in node.targets)


def _is_call_of_check(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check"


def _ended(text: str) -> str:
    return text.rstrip() + "\n"
