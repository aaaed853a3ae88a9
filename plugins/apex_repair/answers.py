"""Which part of the solver answers which question, as parts that may be left out from the end."""

from __future__ import annotations

from random import Random

from apex_framework.interfaces.prompting import Ask, Prompt, render_candidates, render_lines

from .diagnose import diagnose
from .evidence import Evidence, read_evidence
from .locate import locate
from .repair import repair
from .review import review
from .summarize import summarize

Answer = tuple[str, ...]
"""Parts of an answer, each whole in itself, to be joined by newlines."""


def answer(prompt: Prompt, random: Random) -> Answer:
    """The answer to a prompt; plain words where there is nothing to say."""
    evidence = read_evidence(prompt)
    if prompt.ask is Ask.LOCATE:
        return _lines("FOCUS", locate(evidence)) or ("There is no map of functions that I can read.",)
    if prompt.ask is Ask.REPAIR:
        return _candidates(prompt, evidence, random) or ("I see no function that I can change, or all was tried.",)
    if prompt.ask is Ask.DIAGNOSE:
        return _lines("CAUSE", diagnose(evidence)) or ("Nothing in the prompt points to a line.",)
    if prompt.ask is Ask.REVIEW:
        reason, focus = review(prompt, evidence)
        verdict = ("reject", reason) if reason else ("accept", "all visible tests pass and it changes the cause")
        return (*_lines("VERDICT", [verdict]), *_lines("FOCUS", focus))
    return _lines("SUMMARY", summarize(evidence)) or ("SUMMARY nothing was tried yet",)


def _lines(keyword: str, items: list[tuple[str, str]]) -> Answer:
    return tuple(render_lines(keyword, [item]) for item in items)


def _candidates(prompt: Prompt, evidence: Evidence, random: Random) -> Answer:
    found = repair(prompt, evidence, random)
    return tuple(
        render_candidates([c]).replace("CANDIDATE 1", f"CANDIDATE {number}", 1) for number, c in enumerate(found, 1)
    )
