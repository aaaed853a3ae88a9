"""Facts that agents draw from tools: the map of a project, slices of its source, suspicious lines."""

from __future__ import annotations

import ast
import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apex_framework.interfaces import AgentContext
from apex_framework.interfaces.prompting import Kind, Section

MAP_LINES = 30
SUSPICIOUS_LINES = 10
NEIGHBOURHOOD = 15
MOST_NEIGHBOURS = 3
SLICE_LINES = 30
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method of the project; lines are 1-based and inclusive."""

    path: str
    qualname: str
    first: int
    last: int

    @property
    def name(self) -> str:
        """Its name in the map."""
        return f"{self.path}::{self.qualname}"


async def project_map(context: AgentContext) -> tuple[Function, ...]:
    """All functions of the project outside its tests; empty when the tool refuses."""
    result = await context.use("fs.outline")
    if not result.ok:
        return ()
    return tuple(
        Function(str(f["path"]), str(f["name"]), int(f["first"]), int(f["last"]))
        for f in result.value.get("functions", ())
        if not str(f["path"]).startswith("tests/")
    )


def words(text: str) -> set[str]:
    """Identifier parts of a text, in lower case, longer than two letters."""
    return {w.lower() for w in re.findall(r"[A-Za-z][a-z]+|[A-Z]{2,}|[a-z]+", text) if len(w) > 2}


def map_section(functions: Sequence[Function], hints: str) -> Section:
    """The map as a section; when it is too long, the functions that share most words with ``hints``."""
    chosen = functions
    if len(functions) > MAP_LINES:
        wanted = words(hints)
        ranked = sorted(functions, key=lambda f: -len(words(f.qualname) & wanted))[:MAP_LINES]
        keep = set(ranked)
        chosen = [f for f in functions if f in keep]
    return Section(Kind.MAP, "\n".join(f"{f.name} {f.first}-{f.last}" for f in chosen))


def named(functions: Iterable[Function], name: str) -> Function | None:
    """The function with this name in the map; a bare qualname is enough when it is unique."""
    functions = tuple(functions)
    exact = [f for f in functions if f.name == name]
    loose = [f for f in functions if f.qualname == name.rpartition("::")[2]]
    return exact[0] if exact else loose[0] if len(loose) == 1 else None


def enclosing(functions: Iterable[Function], path: str, line: int) -> Function | None:
    """The innermost function that holds a line."""
    around = [f for f in functions if f.path == path and f.first <= line <= f.last]
    return min(around, key=lambda f: f.last - f.first, default=None)


async def source_slice(context: AgentContext, function: Function, about: int | None = None) -> Section | None:
    """A function's source without its docstring; of a long one the part around line ``about``. None when unreadable."""
    result = await context.use("fs.read", path=function.path, start=function.first, end=function.last)
    if not result.ok:
        return None
    lines = str(result.value["text"]).rstrip("\n").split("\n")
    first = function.first
    if len(lines) > SLICE_LINES:
        skip = _docstring_end(lines)
        middle = about - function.first if about is not None else skip + SLICE_LINES // 2
        start = max(skip, min(middle - SLICE_LINES // 2, len(lines) - SLICE_LINES))
        first, lines = first + start, lines[start : start + SLICE_LINES]
    return Section(Kind.FUNCTION, "\n".join(lines), f"{function.path}:{first} {function.qualname}")


def _docstring_end(lines: Sequence[str]) -> int:
    """Number of lines up to the end of a docstring; 0 without one, or when the source cannot be parsed."""
    try:
        tree = ast.parse(textwrap.dedent("\n".join(lines)))
    except SyntaxError:
        return 0
    body = getattr(tree.body[0], "body", None) if tree.body else None
    first = body[0] if body else None
    is_doc = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return (first.end_lineno or 0) if first is not None and is_doc else 0


def places(sections: Iterable[Section]) -> list[tuple[str, int]]:
    """(path, line) of CAUSE and SUSPICIOUS sections, in order."""
    found: list[tuple[str, int]] = []
    for section in sections:
        for line in section.body.splitlines():
            match = re.match(r"(\S+?):(\d+)\b", line)
            if match:
                found.append((match[1], int(match[2])))
    return found


def ochiai(tests: Sequence[Mapping[str, Any]], coverage: Mapping[str, Mapping[str, Sequence[int]]]) -> Section | None:
    """The most suspicious lines by Ochiai (Abreu et al. 2006): f / sqrt(F (f + p)), highest first.

    Ties go to the line nearest to where a failing test raised; no neighbourhood takes all places. ``coverage`` maps test id -> path -> lines;
    None when no test failed or nothing is covered.
    """
    failed: dict[tuple[str, int], int] = defaultdict(int)
    passed: dict[tuple[str, int], int] = defaultdict(int)
    raised: list[tuple[str, int]] = []
    for test in tests:
        bad = test["status"] != "passed"
        if bad:
            raised += [(path, int(line)) for path, line in _FRAME.findall(str(test["detail"]))]
        for path, lines in coverage.get(str(test["id"]), {}).items():
            if not path.startswith("tests/"):
                for line in lines:
                    (failed if bad else passed)[path, line] += 1
    failures = sum(t["status"] != "passed" for t in tests)
    if not failures or not failed:
        return None
    scores = {at: count / math.sqrt(failures * (count + passed[at])) for at, count in failed.items()}

    def rank(at: tuple[str, int]) -> tuple[float, int, tuple[str, int]]:
        distance = min((abs(line - at[1]) for path, line in raised if path == at[0]), default=10_000)
        return -round(scores[at], 2), distance, at

    best: list[tuple[str, int]] = []
    for path, line in sorted(scores, key=rank):
        close = sum(p == path and abs(n - line) <= NEIGHBOURHOOD for p, n in best)
        if close < MOST_NEIGHBOURS and len(best) < SUSPICIOUS_LINES:
            best.append((path, line))
    return suspicious_section([(path, line, scores[path, line]) for path, line in best])


def suspicious_section(lines: Iterable[tuple[str, int, float]]) -> Section:
    """(path, line, score) as a section."""
    return Section(Kind.SUSPICIOUS, "\n".join(f"{path}:{line} {score:.2f}" for path, line, score in lines))


def failing_sections(tests: Sequence[Mapping[str, Any]], most: int = 1, characters: int = 400) -> tuple[Section, ...]:
    """The ends of the first failing tests' outputs."""
    bad = [t for t in tests if t["status"] != "passed"]
    return tuple(Section(Kind.FAILING, str(t["detail"])[-characters:], str(t["id"])) for t in bad[:most])
