"""Facts that agents draw from tools: the map of a project, slices of its source, suspicious lines."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apex_framework.interfaces import AgentContext
from apex_framework.interfaces.prompting import Kind, Section

MAP_LINES = 60
SUSPICIOUS_LINES = 10
SLICE_LINES = 60


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
        Function(str(f["path"]), str(f["qualname"]), int(f["first"]), int(f["last"]))
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
    """A function's source; of a long one the part around line ``about``. None when it cannot be read."""
    first, last = function.first, function.last
    if last - first >= SLICE_LINES:
        middle = about if about is not None and first <= about <= last else first + SLICE_LINES // 2
        first = max(first, min(middle - SLICE_LINES // 2, last - SLICE_LINES + 1))
        last = first + SLICE_LINES - 1
    result = await context.use("fs.read", path=function.path, start=first, end=last)
    if not result.ok:
        return None
    return Section(
        Kind.FUNCTION, str(result.value["text"]).rstrip("\n"), f"{function.path}:{first} {function.qualname}"
    )


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

    ``coverage`` maps test id -> path -> lines; None when no test failed or nothing is covered.
    """
    failed: dict[tuple[str, int], int] = defaultdict(int)
    passed: dict[tuple[str, int], int] = defaultdict(int)
    failures = 0
    for test in tests:
        bad = test["status"] != "passed"
        failures += bad
        for path, lines in coverage.get(str(test["id"]), {}).items():
            if not path.startswith("tests/"):
                for line in lines:
                    (failed if bad else passed)[path, line] += 1
    if not failures or not failed:
        return None
    scores = {at: count / math.sqrt(failures * (count + passed[at])) for at, count in failed.items()}
    best = sorted(scores, key=lambda at: (-scores[at], at))[:SUSPICIOUS_LINES]
    return Section(Kind.SUSPICIOUS, "\n".join(f"{path}:{line} {scores[path, line]:.2f}" for path, line in best))


def failing_sections(tests: Sequence[Mapping[str, Any]], most: int = 2, characters: int = 500) -> tuple[Section, ...]:
    """The ends of the first failing tests' outputs."""
    bad = [t for t in tests if t["status"] != "passed"]
    return tuple(Section(Kind.FAILING, str(t["detail"])[-characters:], str(t["id"])) for t in bad[:most])
