"""What GO, KILL and EXTEND mean, with the number that each rests on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from apex_framework.analysis import Verdict, points
from apex_framework.analysis.verdict import GO_LIFT

GAIN = f"{100 * GO_LIFT:g} points"
UNKNOWN = re.compile(r"whether (.+) beats (.+) cannot be told from this run")


@dataclass(frozen=True, slots=True)
class Bound:
    """A lift with the ends of its interval."""

    against: str
    estimate: float
    low: float
    high: float


def meaning(word: str, arm: str, bounds: Sequence[Bound], rivals: Sequence[Bound]) -> str:
    """In one sentence; empty where no rival, the best static topology or else all of them, was compared with."""
    if not rivals:
        return ""
    most = max(rivals, key=lambda bound: bound.high)
    if word == "KILL":
        over, which = (most.against, "") if len(rivals) == 1 else ("any static topology", "largest ")
        return f"a gain of {GAIN} over {over} is excluded ({which}upper bound {points(most.high)})."
    if word == "GO":
        least = min(bounds, key=lambda bound: bound.low)
        gain = min(rivals, key=lambda bound: bound.estimate)
        return (
            f"{arm} gains {points(gain.estimate)} over {gain.against}, {GAIN} or more, and is above each of "
            f"{', '.join(bound.against for bound in bounds)} (smallest lower bound {points(least.low)}, against {least.against})."
        )
    return f"a gain of {GAIN} over {most.against} is not excluded (upper bound {points(most.high)}), and not all that GO asks for is shown."


def meaning_of(verdict: Verdict, statics: Sequence[str]) -> str:
    """Of a run's own decision."""
    bounds = [Bound(x.against, x.estimate, x.interval.low, x.interval.high) for x in verdict.lifts]
    rivals = [b for b in bounds if b.against == verdict.best_static] or [b for b in bounds if b.against in statics]
    return meaning(verdict.decision, verdict.arm, bounds, rivals)


def remainder(word: str, sentence: str) -> str:
    """The verdict's sentence beside the decision: what KILL leaves open are gains below the one that it excludes."""
    return (
        UNKNOWN.sub(r"whether \1 has any smaller gain over \2 is not known", sentence) if word == "KILL" else sentence
    )
