"""The verdict: an intersection-union test against every static topology and the single agent.

BETTER needs every one of the lower bounds above zero, so it picks no winner and needs no correction for the number of
comparisons. WORSE needs the upper bound against the best static below zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from .lift import Lift

GO_LIFT = 0.05
"""Lift over the best static that GO asks for, and that KILL excludes, where no plan registers another."""


class Word(StrEnum):
    """The three possible verdicts."""

    BETTER = "BETTER"
    WORSE = "WORSE"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run shows about one arm."""

    word: Word
    arm: str
    sentence: str
    """In plain words."""
    decision: str
    """GO, KILL or EXTEND."""
    best_static: str
    best_static_from: str
    """``dev`` when a registered plan names it, ``plan`` when another plan does, ``option`` when whoever asks does, ``same
    data`` when picked on the data that it is compared on, else empty."""
    lifts: tuple[Lift, ...]
    missing: tuple[str, ...] = ()
    """Comparisons that BETTER needs and the run lacks."""


def decide(
    arm: str,
    lifts: Mapping[str, Lift],
    *,
    statics: Sequence[str],
    single: str | None,
    others: Sequence[str] = (),
    best_static: str = "",
    best_static_from: str = "",
    claim: float = GO_LIFT,
) -> Verdict:
    """The verdict on ``arm`` from its lifts by opponent.

    BETTER needs ``others`` too: opponents that a plan registered besides. ``best_static`` should have been chosen on dev;
    nothing is decided without its lift. Where none is named WORSE and KILL need the upper bounds against *every* static,
    which holds whichever of them is best. GO needs a gain of ``claim`` over it, and KILL excludes one.
    """
    needed = list(dict.fromkeys([*statics, *([single] if single else []), *others, *filter(None, [best_static])]))
    missing = [name for name in needed if name not in lifts]
    if not statics:
        missing.append("a static topology")
    if not single:
        missing.append("the single agent")
    against = [lifts[name] for name in needed if name in lifts]
    best = [best_static] if best_static else statics
    rivals = [lifts[name] for name in best] if all(name in lifts for name in best) else []
    if not missing and all(lift.interval.low > 0 for lift in against):
        word = Word.BETTER
    elif rivals and all(lift.interval.high < 0 for lift in rivals):
        word = Word.WORSE
    else:
        word = Word.INCONCLUSIVE
    closest = min(rivals, key=lambda lift: lift.estimate) if rivals else None
    sentence = _sentence(word, arm, against, closest, missing, bool(best_static), others)
    decision = _decision(word, rivals, claim)
    return Verdict(word, arm, sentence, decision, best_static, best_static_from, tuple(against), tuple(missing))


def _decision(word: Word, rivals: Sequence[Lift], claim: float) -> str:
    if not rivals:
        return "EXTEND"
    if word is Word.BETTER and all(lift.estimate >= claim for lift in rivals):
        return "GO"
    return "KILL" if all(lift.interval.high < claim for lift in rivals) else "EXTEND"


def _sentence(
    word: Word,
    arm: str,
    against: Sequence[Lift],
    rival: Lift | None,
    missing: Sequence[str],
    chosen: bool,
    others: Sequence[str],
) -> str:
    if word is Word.BETTER:
        least = min(against, key=lambda lift: lift.interval.low)
        besides = f" and {', '.join(others)}" if others else ""
        return (
            f"BETTER: {arm} solves more tasks within the budget than every static topology and the single agent{besides}; "
            f"its smallest lower bound is {points(least.interval.low)} (against {least.against})."
        )
    if rival is None:
        return f"INCONCLUSIVE: {arm} is not compared with {' and '.join(missing)}."
    level = f"{100 * rival.interval.confidence:g} % interval"
    span = f"{points(rival.estimate)}, {level} {points(rival.interval.low)} to {points(rival.interval.high)}"
    if word is Word.WORSE:
        which = "the best static topology" if chosen else "every static topology, at best"
        return f"WORSE: {arm} solves fewer tasks within the budget than {which}, {rival.against} ({span})."
    lack = f" It is not compared with {' and '.join(missing)}." if missing else ""
    most = f" So many tasks show a lift of {points(rival.detectable)} or more." if rival.detectable else ""
    failing = min(against, key=lambda lift: lift.interval.low)
    if failing.against != rival.against and rival.interval.low > 0:
        other = failing.interval
        return (
            f"INCONCLUSIVE: {arm} beats {rival.against} ({span}), but not {failing.against} "
            f"({points(failing.estimate)}, {points(other.low)} to {points(other.high)}).{lack}"
        )
    return f"INCONCLUSIVE: whether {arm} beats {rival.against} cannot be told from this run ({span}).{most}{lack}"


def points(value: float) -> str:
    """A share as signed percentage points."""
    return f"{100 * value:+.1f} pp"


def p_text(value: float) -> str:
    """A p-value with three decimals; none is nothing."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
