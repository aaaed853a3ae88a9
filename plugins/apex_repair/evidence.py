"""What a prompt says, as data: places, failures, suspicion, tried edits. Lines that do not parse are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from apex_framework.interfaces.prompting import Kind, Prompt

_FRAME = re.compile(r'File "([^"]+)", line (\d{1,7})(?:, in (\S+))?')
_PLACE = re.compile(r"(\S+?):(\d{1,7})$")
_LINES = re.compile(r"(\d{1,7})-(\d{1,7})$")
_WORN = re.compile(r"(\S{1,200}):(\d{1,7}) \((\d{1,4})\)")
RULED_OUT = "ruled out "
"""How a summary's line begins that names functions where nothing helped."""
_ARROW = re.compile(r"(\d{1,7})/(\d{1,7}) -> (\d{1,7})/(\d{1,7})")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the map; lines are 1-based and inclusive."""

    path: str
    qualname: str
    first: int
    last: int

    @property
    def name(self) -> str:
        """Its name in the map."""
        return f"{self.path}::{self.qualname}"

    def holds(self, path: str, line: int) -> bool:
        """Whether a line is one of its own."""
        return self.first <= line <= self.last and same_file(self.path, path)


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of a traceback; ``depth`` counts from 0 at the raising end."""

    path: str
    line: int
    function: str
    depth: int


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate that was run. ``key`` is its line without the outcome."""

    key: str
    places: tuple[tuple[str, int], ...]
    outcome: str
    before: int = 0
    after: int = 0

    @property
    def improved(self) -> bool:
        """Whether more tests passed with it than without."""
        return self.after > self.before


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a prompt tells about the fault."""

    issue: str
    failing: tuple[tuple[str, str], ...]
    """(test id, end of its output)."""
    passing: tuple[str, ...]
    functions: tuple[Function, ...]
    frames: tuple[Frame, ...]
    suspicion: dict[tuple[str, int], float]
    causes: dict[tuple[str, int], int]
    """Place -> its position among the causes."""
    focus: tuple[str, ...]
    tried: tuple[Tried, ...]
    ruled_out: frozenset[str] = frozenset()
    """Functions that a summary calls ruled out."""
    worn: dict[tuple[str, int], int] = field(default_factory=dict)
    """Place -> edits tried there in vain, according to a summary."""
    text: str = field(default="", repr=False)
    """Issue and failures together, where words are looked for."""


def same_file(one: str, other: str) -> bool:
    """Whether two spellings may name one file: equal, or one is the other's end after a slash."""
    if one == other:
        return True
    one, other = sorted((one, other), key=len)
    return bool(one) and other.endswith("/" + one)


def is_test_file(path: str) -> bool:
    """Whether a path is that of tests."""
    name = path.rpartition("/")[2]
    return name.startswith("test_") or name.endswith("_test.py") or "/tests/" in f"/{path}"


def normal(text: str) -> str:
    """Text with every gap as one space."""
    return " ".join(text.split())


def read_evidence(prompt: Prompt) -> Evidence:
    """The evidence of a prompt."""
    issue = "\n".join(s.body for s in prompt.of(Kind.ISSUE))
    failing = tuple((s.label, s.body) for s in prompt.of(Kind.FAILING))
    history = list(_lines(prompt, Kind.SUMMARY))
    return Evidence(
        issue=issue,
        failing=failing,
        passing=tuple(normal(line) for line in _lines(prompt, Kind.PASSING)),
        functions=tuple(_functions(prompt)),
        frames=tuple(frame for _, output in failing for frame in _frames(output)),
        suspicion=dict(_suspicion(prompt)),
        causes={place: i for i, place in reversed(list(enumerate(_causes(prompt))))},
        focus=tuple(line.partition(" | ")[0].strip() for line in _lines(prompt, Kind.FOCUS)),
        tried=tuple(_tried(prompt)),
        ruled_out=frozenset(
            name.strip() for line in history if line.startswith(RULED_OUT) for name in line[len(RULED_OUT) :].split(",")
        ),
        worn={(m[1], int(m[2])): int(m[3]) for line in history for m in _WORN.finditer(line)},
        text="\n".join([issue, *(f"{label}\n{output}" for label, output in failing)]),
    )


def _lines(prompt: Prompt, kind: Kind) -> Iterator[str]:
    for section in prompt.of(kind):
        yield from (line for line in section.body.splitlines() if line.strip())


def _functions(prompt: Prompt) -> Iterator[Function]:
    for line in _lines(prompt, Kind.MAP):
        name, _, span = line.strip().rpartition(" ")
        path, colons, qualname = name.strip().partition("::")
        match = _LINES.match(span)
        if match and path and colons and qualname:
            yield Function(path, qualname, int(match[1]), int(match[2]))


def _frames(output: str) -> Iterator[Frame]:
    found = _FRAME.findall(output)
    for depth, (path, line, function) in enumerate(reversed(found)):
        yield Frame(path, int(line), function, depth)


def _suspicion(prompt: Prompt) -> Iterator[tuple[tuple[str, int], float]]:
    for line in _lines(prompt, Kind.SUSPICIOUS):
        at, _, score = line.strip().rpartition(" ")
        match = _PLACE.match(at)
        if match and re.fullmatch(r"\d{1,6}(\.\d{1,9})?", score):
            yield (match[1], int(match[2])), float(score)


def _causes(prompt: Prompt) -> Iterator[tuple[str, int]]:
    for line in _lines(prompt, Kind.CAUSE):
        match = _PLACE.match(line.partition(" | ")[0].strip())
        if match:
            yield match[1], int(match[2])


def _tried(prompt: Prompt) -> Iterator[Tried]:
    for line in _lines(prompt, Kind.TRIED):
        key, bar, outcome = line.rpartition(" | ")
        matches = [_PLACE.match(at.strip()) for at in key.partition(" | ")[0].split(" & ")]
        places = tuple((m[1], int(m[2])) for m in matches if m)
        if bar and places:
            arrow = _ARROW.search(outcome)
            before, after = (int(arrow[1]), int(arrow[3])) if arrow else (0, 0)
            yield Tried(normal(key), places, outcome.strip(), before, after)
