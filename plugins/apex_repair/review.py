"""The answer to ``review``: whether a change mends the cause or only pleases the tests."""

from __future__ import annotations

import re

from apex_framework.interfaces.prompting import GrammarError, Kind, Prompt, parse_candidates

from .evidence import Evidence, normal

MOST_FOCUS = 3
_LITERAL = r"(-?\d+(?:\.\d+)?|'[^'\n]{1,60}'|\"[^\"\n]{1,60}\")"
_SPECIAL_CASE = re.compile(rf"\bif\b.*(?:==\s*{_LITERAL}|\bin\s*[(\[{{]\s*{_LITERAL})")


def review(prompt: Prompt, evidence: Evidence) -> tuple[str, list[tuple[str, str]]]:
    """(why the change is to be rejected, functions to look at); the reason is empty to accept."""
    passed = set(evidence.passing)
    failing = [label or "a test" for label, _ in evidence.failing if normal(label) not in passed]
    reason = ""
    if any("regression" in s.label for s in prompt.of(Kind.NOTE)):
        reason = "a second run does not pass"
    elif failing:
        reason = f"{failing[0]} fails"
    elif not passed:
        reason = "no test is known to pass"
    else:
        changes = [c for s in prompt.of(Kind.DIFF) for c in changed_lines(s.body)]
        for removed, added in changes:
            reason = reason or overfit(removed, added, evidence)
    return reason, _focus(evidence) if reason else []


def changed_lines(diff: str) -> list[tuple[list[str], list[str]]]:
    """(removed, added) lines per change of a unified diff or of candidate blocks."""
    try:
        edits = [e for c in parse_candidates(diff) for e in c.edits]
    except GrammarError:
        lines = diff.splitlines()
        minus = [x[1:] for x in lines if x.startswith("-") and not x.startswith("---")]
        plus = [x[1:] for x in lines if x.startswith("+") and not x.startswith("+++")]
        return [(minus, plus)] if minus or plus else []
    pairs = [(e.search.splitlines(), e.replace.splitlines()) for e in edits]
    return [([x for x in a if x not in b], [x for x in b if x not in a]) for a, b in pairs]


def overfit(removed: list[str], added: list[str], evidence: Evidence) -> str:
    """Why a change looks like one that fits only the tests, or nothing."""
    code = [x.strip() for x in added if x.strip() and not x.strip().startswith("#")]
    gone = [x.strip() for x in removed if x.strip() and not x.strip().startswith("#")]
    if gone and code in ([], ["pass"]):
        return "it deletes code"
    if sum(x.startswith("except") for x in code) > sum(x.startswith("except") for x in gone):
        return "it swallows an exception"
    failing = "\n".join(output for _, output in evidence.failing) + evidence.issue
    for line in code:
        match = _SPECIAL_CASE.search(line)
        literal = (match[1] or match[2]) if match else ""
        if len(literal) > 1 and not any(literal in x for x in gone) and literal in failing:
            return f"it singles out {literal}, a value of the tests"
    return ""


def _focus(evidence: Evidence) -> list[tuple[str, str]]:
    """The functions where the fault may be instead."""
    from .locate import locate

    if evidence.functions:
        return locate(evidence)
    return [(name, "still in focus") for name in evidence.focus[:MOST_FOCUS]]
