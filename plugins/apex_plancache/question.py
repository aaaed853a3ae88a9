"""What a planner or a critic asks, so far as an answer depends on it, and which answers may be kept.

A planner is asked again because the functions of its first answer led nowhere: they are gone from the map, and what the
team found out about them meanwhile is in the prompt. Such evidence cannot move the choice between the functions that
are left. So a question to a planner is the issue and the evidence that bears on a function *still on offer*: by a place
in it, or by its name. A question to a critic is the whole prompt but for the history of other attempts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from apex_framework.interfaces import LLMRequest, PlanKey
from apex_framework.interfaces.prompting import (
    Ask,
    GrammarError,
    Kind,
    Prompt,
    Section,
    parse_lines,
    parse_prompt,
)

EVIDENCE, KEY = "evidence", "key"
MATCHES: Final = (EVIDENCE, KEY)
"""``evidence``: what bears on what is left must be the same; ``key``: new evidence does not keep a planner's plan from use."""

ASKS: Final = {"planner": Ask.LOCATE, "critic": Ask.REVIEW}
"""Role -> what it asks that a plan can answer."""

_BY_LINE: Final = frozenset({Kind.SUSPICIOUS, Kind.CAUSE, Kind.TRIED, Kind.FOCUS, Kind.SUMMARY})
_HISTORY: Final = frozenset({Kind.TRIED, Kind.SUMMARY})
_SPAN: Final = re.compile(r"(\S+?)::(\S+) (\d+)-(\d+)")
_PLACE: Final = re.compile(r"([\w./-]+\.\w+)(?:\", line |:)(\d+)")
_FULL_NAME: Final = re.compile(r"[\w./-]+::[^\s|,]+")
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Question:
    """Where a plan is filed: equal for equal key and equal content."""

    plan: PlanKey
    role: str
    digest: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the functions that it lets choose from; ``offered`` is None where there is nothing to choose."""

    question: Question
    offered: frozenset[str] | None

    def usable(self, steps: Iterable[str]) -> tuple[str, ...]:
        """The steps that can still be taken, in order."""
        if self.offered is None:
            return tuple(steps)
        return tuple(step for step in steps if _focus(step) in self.offered)


class _Offer:
    """The functions of a map, and what bears on them."""

    def __init__(self, prompt: Prompt) -> None:
        self.spans: dict[str, tuple[str, int, int]] = {}
        for section in prompt.of(Kind.MAP):
            for line in section.body.splitlines():
                if match := _SPAN.fullmatch(line.strip()):
                    name = f"{match[1]}::{match[2]}"
                    self.spans[name] = (match[1], int(match[3]), int(match[4]))
        self._words = {name.rpartition("::")[2].rpartition(".")[2] for name in self.spans}

    def bears(self, text: str) -> bool:
        """Whether a text speaks of a function on offer: its full name, a line of it, or the last part of its name."""
        if any(name in self.spans for name in _FULL_NAME.findall(text)):
            return True
        rest = _FULL_NAME.sub(" ", text)
        for path, line in _PLACE.findall(rest):
            at = int(line)
            if any(first <= at <= last and _same(path, own) for own, first, last in self.spans.values()):
                return True
        return not self._words.isdisjoint(_WORD.findall(rest))

    def kept(self, section: Section) -> Section | None:
        """What of a section bears on the offer; None when nothing does."""
        if section.kind in _BY_LINE:
            lines = [line for line in section.body.splitlines() if self.bears(line)]
            return Section(section.kind, "\n".join(lines), section.label) if lines else None
        return section if self.bears(f"{section.label}\n{section.body}") else None


def asked(request: LLMRequest, role: str, key: PlanKey, match: str = EVIDENCE) -> Asked | None:
    """What a call asks; None for one whose answer is never kept: of another role or kind, sampled, or not understood."""
    if request.temperature != 0 or role not in ASKS:
        return None
    try:
        prompt = parse_prompt(request.prompt)
    except GrammarError:
        return None
    if prompt.ask is not ASKS[role]:
        return None
    offered: frozenset[str] | None = None
    if prompt.ask is Ask.LOCATE:
        offer = _Offer(prompt)
        offered = frozenset(offer.spans)
        if not offered:
            return None
        content = list(prompt.of(Kind.ISSUE))
        if match == EVIDENCE:
            others = [s for s in prompt.sections if s.kind not in (Kind.ISSUE, Kind.MAP)]
            content += [kept for s in others if (kept := offer.kept(s)) is not None]
    else:
        if not prompt.of(Kind.DIFF):
            return None
        content = [s for s in prompt.sections if s.kind not in _HISTORY]
    return Asked(Question(key, role, _digest(request, prompt, content)), offered)


def steps_of(text: str, role: str, offered: frozenset[str] | None) -> tuple[str, ...]:
    """The steps of an answer that may be kept; none of one that is malformed or names nothing on offer."""
    keyword = "FOCUS" if ASKS[role] is Ask.LOCATE else "VERDICT"
    try:
        found = parse_lines(text, keyword)
    except GrammarError:
        return ()
    lines = [line for line in text.splitlines() if line.strip()]
    if offered is not None:
        return tuple(line for line in lines if _focus(line) in offered)
    return tuple(lines) if len(found) == 1 and found[0][0] in ("accept", "reject") else ()


def _digest(request: LLMRequest, prompt: Prompt, content: Iterable[Section]) -> str:
    """SHA-256 of everything that the answer depends on. The seed is none of it: plans are kept at temperature 0 only."""
    asked_for = [prompt.ask.value, prompt.candidates, prompt.instruction, request.system, request.max_tokens]
    limits = [request.top_p, list(request.stop)]
    sections = sorted({(s.kind.value, s.label, s.body) for s in content})
    return hashlib.sha256(json.dumps([asked_for, limits, sections]).encode()).hexdigest()


def _focus(step: str) -> str:
    """The function that a FOCUS line names; empty for another line."""
    return step[len("FOCUS ") :].partition(" | ")[0].strip() if step.startswith("FOCUS ") else ""


def _same(one: str, other: str) -> bool:
    """Whether two spellings may name one file."""
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")
