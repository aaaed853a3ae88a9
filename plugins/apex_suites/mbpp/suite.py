"""The suite ``mbpp``."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from apex_framework.errors import UsageError

from ..programs.program import Check, Program, checks_of, defined, parsed, used
from ..programs.rows import Row, read_rows, unique
from ..programs.suite import INJECTED, ProgramSuite


class MbppSuite(ProgramSuite):
    """MBPP in its sanitized or its full layout. Splits are the public ones; the ten problems for prompts are ``train``."""

    name = "mbpp"
    wanted = "sanitized-mbpp.json (or mbpp.jsonl, of google-research)"
    caveats = (INJECTED, "MBPP's solutions have been public since 2021: a language model may know them by heart.")

    def read(self) -> Sequence[Program]:
        rows = read_rows(self.data)
        made = [_program(row) for row in rows]
        unique(rows, [p.id for p in made])
        return made


def split_of(number: int) -> str:
    """The public split of a problem: 11 to 510 test, 511 to 600 validation, the others for training and prompts."""
    return "test" if 11 <= number <= 510 else "dev" if 511 <= number <= 600 else "train"


def _program(row: Row) -> Program:
    number = row.number("task_id")
    text = row.text("prompt" if "prompt" in row.values else "text")
    source = row.text("code").replace("\r\n", "\n").rstrip() + "\n"
    tree = parsed(row.where, "code", source)
    tests = [parsed(row.where, "test_list", t) for t in row.texts("test_list")]
    tests += [parsed(row.where, "challenge_test_list", t) for t in row.texts("challenge_test_list", ())]
    setup = ["\n".join(row.texts("test_imports", ())), row.text("test_setup_code", "")]
    around = [parsed(row.where, "test_imports", part) for part in setup]
    names = used([*tests, *around]) & defined(tree)
    if not names:
        raise UsageError(f"{row.where}: no test calls what field 'code' defines")
    functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in names]
    checks: tuple[Check, ...] = checks_of([s for t in tests for s in t.body])
    prelude = "\n".join([f"from program import {', '.join(sorted(names))}", *map(ast.unparse, around)])
    entry = functions[-1] if functions else min(names)
    return Program(f"mbpp-{number}", split_of(number), entry, f'"""{_quoted(text)}"""\n\n{source}', checks, prelude)


def _quoted(text: str) -> str:
    """A problem's words as the program's docstring."""
    return text.replace("\r\n", "\n").strip().replace("\\", "\\\\").replace('"', "'")
