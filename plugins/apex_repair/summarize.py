"""The answer to ``summarize``: what was tried and ruled out."""

from __future__ import annotations

from collections import Counter

from .evidence import RULED_OUT, Evidence

MOST_LINES = 8
_WORN_OUT = 4
"""Vain edits in one function after which it is called ruled out."""


def summarize(evidence: Evidence) -> list[tuple[str, str]]:
    """At most eight (line, "") pairs, most important first; empty when there is no history."""
    lines: list[str] = []
    improved = sorted((t for t in evidence.tried if t.improved), key=lambda t: -t.after)
    vain = [t for t in evidence.tried if not t.improved]
    if improved:
        lines.append(f"best so far {improved[0].key.replace(' | ', ', ')}, {improved[0].outcome}")
    if vain:
        spots = Counter(f"{path}:{line}" for t in vain for path, line in t.places)
        most = ", ".join(f"{at} ({count})" for at, count in spots.most_common(6))
        lines.append(f"{len(vain)} edits without progress at {most}")
    per_function = Counter(
        f.name for t in vain for f in evidence.functions if any(f.holds(path, line) for path, line in t.places)
    )
    worn = [name for name, count in per_function.most_common(4) if count >= _WORN_OUT]
    if worn:
        lines.append(RULED_OUT + ", ".join(worn))
    if evidence.failing:
        lines.append(f"still failing {', '.join(label or 'a test' for label, _ in evidence.failing[:3])}")
    if evidence.causes:
        lines.append(f"assumed causes {', '.join(f'{path}:{line}' for path, line in list(evidence.causes)[:3])}")
    return [(" ".join(line.split())[:240], "") for line in lines[:MOST_LINES]]
