"""What GO, KILL and EXTEND mean, with the number that each rests on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from apex_framework.analysis import Verdict, points
from apex_framework.analysis.verdict import GO_LIFT

UNKNOWN = re.compile(r"whether (.+) beats (.+) cannot be told from this run")


@dataclass(frozen=True, slots=True)
class Bound:
    """A lift with the ends of its interval."""

    against: str
    estimate: float
    low: float
    high: float


def rivals_of(bounds: Sequence[Bound], best: str, statics: Sequence[str]) -> list[Bound]:
    """Of the best static topology; of all of them where none is named."""
    return [bound for bound in bounds if bound.against in ([best] if best else statics)]


def meaning(word: str, arm: str, bounds: Sequence[Bound], rivals: Sequence[Bound], claim: float = GO_LIFT) -> str:
    """In one sentence; empty where no rival, the best static topology or else all of them, was compared with."""
    if not rivals:
        return ""
    wanted = f"{100 * claim:g} points"
    most = max(rivals, key=lambda bound: bound.high)
    if word == "KILL":
        over, which = (most.against, "") if len(rivals) == 1 else ("any static topology", "largest ")
        return f"a gain of {wanted} over {over} is excluded ({which}upper bound {points(most.high)})."
    if word == "GO":
        least = min(bounds, key=lambda bound: bound.low)
        gain = min(rivals, key=lambda bound: bound.estimate)
        return (
            f"{arm} gains {points(gain.estimate)} over {gain.against}, {wanted} or more, and is above each of "
            f"{', '.join(bound.against for bound in bounds)} (smallest lower bound {points(least.low)}, against {least.against})."
        )
    return f"a gain of {wanted} over {most.against} is not excluded (upper bound {points(most.high)}), and not all that GO asks for is shown."


def meaning_of(verdict: Verdict, statics: Sequence[str]) -> str:
    """Of a run's own decision."""
    bounds = [Bound(x.against, x.estimate, x.interval.low, x.interval.high) for x in verdict.lifts]
    return meaning(verdict.decision, verdict.arm, bounds, rivals_of(bounds, verdict.best_static, statics))


def remainder(word: str, sentence: str) -> str:
    """The verdict's sentence beside the decision: what KILL leaves open are gains below the one that it excludes."""
    return (
        UNKNOWN.sub(r"whether \1 has any smaller gain over \2 is not known", sentence) if word == "KILL" else sentence
    )
