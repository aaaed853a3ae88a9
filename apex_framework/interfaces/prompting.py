"""The section grammar of prompts and answers, version 1.

A prompt is a task, an instruction in plain words and a list of sections; agents' messages carry the
same sections, so what an agent hears can go into its next prompt unchanged. A real LLM reads it as
text; a rule-based backend parses it back exactly. Answers have one strict form per task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

GRAMMAR_VERSION = 1
_HEAD = f"APEX PROMPT {GRAMMAR_VERSION}"


class Ask(StrEnum):
    """What a prompt wants."""

    LOCATE = "locate"
    """Which functions to look at. Answer: FOCUS lines."""
    REPAIR = "repair"
    """How to change the code. Answer: CANDIDATE blocks."""
    DIAGNOSE = "diagnose"
    """What a failing run means. Answer: CAUSE lines."""
    REVIEW = "review"
    """Whether a change is good. Answer: one VERDICT line, then FOCUS lines on rejection."""
    SUMMARIZE = "summarize"
    """The history in few words. Answer: SUMMARY lines."""


class Kind(StrEnum):
    """Kinds of sections. ``label`` and body of each:"""

    ISSUE = "ISSUE"
    """The report of what is wrong."""
    MAP = "MAP"
    """One line per function: ``path::qualname first-last``."""
    FUNCTION = "FUNCTION"
    """Label ``path:first qualname``; body: its source lines, the first of them being line ``first``."""
    FAILING = "FAILING"
    """Label: test id; body: the end of its output."""
    PASSING = "PASSING"
    """Test ids, one a line."""
    SUSPICIOUS = "SUSPICIOUS"
    """One line per source line: ``path:line score``, highest first."""
    TRIED = "TRIED"
    """One line per candidate: ``path:line | old | new | outcome``."""
    CAUSE = "CAUSE"
    """One line per assumed cause: ``path:line | why``."""
    FOCUS = "FOCUS"
    """One line per function to look at: ``path::qualname | why``."""
    DIFF = "DIFF"
    """A change as a unified diff."""
    SUMMARY = "SUMMARY"
    """History in few words."""
    NOTE = "NOTE"
    """Anything else."""


@dataclass(frozen=True, slots=True)
class Section:
    """One titled part of a prompt or a message."""

    kind: Kind
    body: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A parsed prompt."""

    ask: Ask
    sections: tuple[Section, ...]
    candidates: int = 1
    instruction: str = ""

    def of(self, kind: Kind) -> tuple[Section, ...]:
        """Sections of a kind, in order."""
        return tuple(s for s in self.sections if s.kind is kind)


class GrammarError(ValueError):
    """A prompt or an answer does not have its form; the text says what was expected."""


_TITLE = re.compile(r"^\[\[([A-Z]+)(?: (.*))?\]\]$")


def render_sections(sections: Iterable[Section]) -> str:
    """Sections as text. Body lines that look like a title are indented by one space."""
    out: list[str] = []
    for s in sections:
        label = " ".join(s.label.split())
        out.append(f"[[{s.kind.value} {label}]]" if label else f"[[{s.kind.value}]]")
        out.extend(f" {line}" if line.startswith("[[") else line for line in s.body.splitlines())
    return "\n".join(out)


def parse_sections(text: str) -> tuple[Section, ...]:
    """The sections of a text; lines before the first title are left out."""
    sections: list[Section] = []
    title: tuple[Kind, str] | None = None
    body: list[str] = []
    for line in text.splitlines():
        match = _TITLE.match(line)
        if match and match[1] in Kind.__members__:
            if title:
                sections.append(Section(title[0], "\n".join(body), title[1]))
            title, body = (Kind(match[1]), match[2] or ""), []
        elif title:
            body.append(line[1:] if line.startswith(" [[") else line)
    if title:
        sections.append(Section(title[0], "\n".join(body), title[1]))
    return tuple(sections)


def render_prompt(ask: Ask, sections: Iterable[Section], *, instruction: str = "", candidates: int = 1) -> str:
    """A prompt as text."""
    head = f"{_HEAD}\nTASK {ask.value} {candidates}\n{instruction}".rstrip()
    return f"{head}\n{render_sections(sections)}\n"


def parse_prompt(text: str) -> Prompt:
    """A prompt from its text. Raises GrammarError."""
    lines = text.split("\n", 2)
    if not text.startswith(_HEAD + "\n"):
        raise GrammarError(f"a prompt begins with {_HEAD!r}")
    match = re.fullmatch(r"TASK (\w+) (\d+)", lines[1])
    if not match or match[1] not in {a.value for a in Ask}:
        raise GrammarError("line 2 must be 'TASK name candidates'")
    rest = lines[2] if len(lines) > 2 else ""
    instruction: list[str] = []
    for line in rest.splitlines():
        if _TITLE.match(line):
            break
        instruction.append(line)
    return Prompt(Ask(match[1]), parse_sections(rest), int(match[2]), "\n".join(instruction).strip())


# --- answers --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``search`` (whole lines) by ``replace`` in ``path``; ``line`` (1-based) chooses among equal places."""

    path: str
    line: int
    search: str
    replace: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One proposed change: its edits, applied together, and why."""

    edits: tuple[Edit, ...]
    why: str = ""


def render_candidates(candidates: Iterable[Candidate]) -> str:
    """Candidates as an answer to ``repair``."""
    out: list[str] = []
    for number, candidate in enumerate(candidates, 1):
        out.append(f"CANDIDATE {number} {candidate.why}".rstrip())
        out += [
            f"FILE {e.path}:{e.line}\n<<<<<<< SEARCH\n{e.search}\n=======\n{e.replace}\n>>>>>>> REPLACE"
            for e in candidate.edits
        ]
    return "\n".join(out)


def parse_candidates(text: str, *, most: int | None = None) -> tuple[Candidate, ...]:
    """Candidates of an answer. Raises GrammarError when there is none or one is malformed.

    An answer that was cut off in its last candidate keeps the complete ones before it.
    """
    candidates: list[Candidate] = []
    why, started = "", False
    edits: list[Edit] = []
    lines = iter(text.splitlines())

    def block(end: str) -> str | None:
        body: list[str] = []
        for line in lines:
            if line.rstrip() == end:
                return "\n".join(body)
            body.append(line)
        return None

    for line in lines:
        if line.startswith("CANDIDATE"):
            if edits:
                candidates.append(Candidate(tuple(edits), why))
            why, edits, started = line.split(None, 2)[2] if len(line.split(None, 2)) > 2 else "", [], True
        elif match := re.fullmatch(r"FILE (\S.*?)(?::(\d+))?\s*", line):
            if not started:
                raise GrammarError("FILE before the first CANDIDATE line")
            if next(lines, "").rstrip() != "<<<<<<< SEARCH":
                raise GrammarError("after FILE comes a line '<<<<<<< SEARCH'")
            search, replace = block("======="), block(">>>>>>> REPLACE")
            if search is None or replace is None:
                edits = []
                break
            edits.append(Edit(match[1], int(match[2] or 1), search, replace))
        elif line.strip():
            raise GrammarError(f"unexpected line {line[:60]!r}")
    if edits:
        candidates.append(Candidate(tuple(edits), why))
    if not candidates:
        raise GrammarError("expected at least one complete CANDIDATE block")
    return tuple(candidates[:most])


def tried_line(candidate: Candidate, outcome: str) -> str:
    """A candidate as a TRIED line: ``path:line | old | new | outcome``.

    Lines of one edit are stripped and joined by `` ; ``; several edits are joined by `` & `` in each field.
    """

    def flat(text: str) -> str:
        return " ; ".join(line.strip() for line in text.splitlines())

    at = " & ".join(f"{e.path}:{e.line}" for e in candidate.edits)
    old = " & ".join(flat(e.search) for e in candidate.edits)
    new = " & ".join(flat(e.replace) for e in candidate.edits)
    return f"{at} | {old} | {new} | {outcome}"


def apply_edit(source: str, edit: Edit) -> str:
    """The source with one edit applied. Raises GrammarError when the search text is not there."""
    lines = source.split("\n")
    wanted = edit.search.split("\n")
    starts = (i for i in range(len(lines) - len(wanted) + 1) if lines[i] == wanted[0])
    places = [i for i in starts if lines[i : i + len(wanted)] == wanted]
    if not places:
        raise GrammarError(f"the search text does not occur in {edit.path}")
    at = min(places, key=lambda i: (abs(i + 1 - edit.line), i))
    replacement = edit.replace.split("\n") if edit.replace else []
    return "\n".join([*lines[:at], *replacement, *lines[at + len(wanted) :]])


def parse_lines(text: str, keyword: str) -> tuple[tuple[str, str], ...]:
    """``KEYWORD what | why`` lines of an answer as (what, why). Raises GrammarError when there is none."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith(keyword + " "):
            what, _, why = line[len(keyword) + 1 :].partition(" | ")
            if what.strip():
                found.append((what.strip(), why.strip()))
    if not found:
        raise GrammarError(f"expected a line '{keyword} what | why'")
    return tuple(found)


def render_lines(keyword: str, items: Sequence[tuple[str, str]]) -> str:
    """The inverse of ``parse_lines``."""
    return "\n".join(f"{keyword} {what} | {why}" if why else f"{keyword} {what}" for what, why in items)
