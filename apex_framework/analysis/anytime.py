"""The registered rule at a look: the fixed rule's words, with bounds that hold at every look, whenever one stops.

A bound is the e-process of ``sequential`` turned round: every mean against which the capital has reached 1/alpha, at this
look or an earlier one, is excluded (betting confidence sequences: Waudby-Smith and Ramdas 2024; here shares are mixed, not tuned).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .lift import Pairing
from .sequential import Bet, bets_at, e_value
from .verdict import GO_LIFT, points

ON = "ON"
"""A look that decides nothing, with looks to come."""
_HALVINGS = 30


@dataclass(frozen=True, slots=True)
class Evidence:
    """One comparison at one look; all rates are shares."""

    arm: str
    against: str
    tasks: int
    """That both arms were judged on so far."""
    bets: int
    """These, or their clusters that are complete."""
    wins: int
    losses: int
    estimate: float
    """Mean difference over tasks; stopping early at a large one flatters it."""
    low: float
    high: float
    """Anytime-valid: each end is a one-sided bound at alpha, over all looks together."""
    e_better: float
    """Capital of bets on "the lift is above 0"."""
    e_small: float
    """Capital of bets on "the lift is below the claim"."""
    better: bool
    """Whether ``e_better`` has reached 1/alpha at this look or an earlier one."""
    small: bool
    """The same of ``e_small``."""


def evidence_at(
    pairing: Pairing,
    order: Mapping[str, str],
    look: int,
    *,
    alpha: float,
    claim: float = GO_LIFT,
    unit: str = "cluster",
    before: Evidence | None = None,
    bounds: bool = True,
) -> Evidence:
    """What the first ``look`` tasks of ``order`` show; ``before`` is the evidence of the look before.

    ``claim`` is the lift that ``small`` excludes; ``unit`` is what is bet on, as in ``sequential_test``.

    Without ``bounds`` none are sought, which no decision needs and simulations of thousands of looks can do without.
    Raises NotComparableError for a task that is not in ``order``.
    """
    tasks, bets = bets_at(pairing, order, look, unit)
    differences = [bet.gain for bet in (bets if unit == "task" else bets_at(pairing, order, look, "task")[1])]
    enough = 1 / alpha
    low, high = -1.0, 1.0
    if bounds:
        low, high = _bound(bets, enough, above=True), _bound(bets, enough, above=False)
    e_better, e_small = _against(bets, 0.0, above=True), _against(bets, claim, above=False)
    better, small = e_better >= enough, e_small >= enough
    if before is not None:
        low, high = max(low, before.low), min(high, before.high)
        better, small = better or before.better, small or before.small
    return Evidence(
        arm=pairing.arm,
        against=pairing.against,
        tasks=tasks,
        bets=len(bets),
        wins=sum(d > 0 for d in differences),
        losses=sum(d < 0 for d in differences),
        estimate=sum(differences) / len(differences) if differences else 0.0,
        low=low,
        high=high,
        e_better=e_better,
        e_small=e_small,
        better=better,
        small=small,
    )


def decision_at(
    evidence: Sequence[Evidence],
    best_static: str,
    missing: Sequence[str] = (),
    *,
    last: bool,
    claim: float = GO_LIFT,
) -> str:
    """GO, KILL, EXTEND at the ``last`` look, or ``ON``. ``missing``: comparisons without which nothing is BETTER."""
    best = next((e for e in evidence if e.against == best_static), None)
    if best is not None and not missing and all(e.better for e in evidence) and best.estimate >= claim:
        return "GO"
    if best is not None and best.small:
        return "KILL"
    return "EXTEND" if last else ON


def sentence_at(
    decision: str,
    evidence: Sequence[Evidence],
    best_static: str,
    missing: Sequence[str] = (),
    *,
    claim: float = GO_LIFT,
) -> str:
    """In words."""
    best = next((e for e in evidence if e.against == best_static), None)
    if best is None:
        return f"{decision}: there is no comparison with a best static topology."
    span = f"{points(best.estimate)}, anytime interval {points(best.low)} to {points(best.high)}"
    if decision == "GO":
        least = min(evidence, key=lambda e: e.low)
        return (
            f"GO: {best.arm} solves more tasks than each of {', '.join(e.against for e in evidence)}; its smallest "
            f"lower bound is {points(least.low)} (against {least.against}); over {best.against} {span}."
        )
    if decision == "KILL":
        return f"KILL: {best.arm} does not gain {points(claim)} over {best.against} ({span})."
    open_yet = [f"{e.against} (e-value {e.e_better:.3g})" for e in evidence if not e.better]
    lack = f" The plan lacks {' and '.join(missing)}." if missing else ""
    shown = f" Not shown to be better than {', '.join(open_yet)}." if open_yet else ""
    return f"{decision}: over {best.against} {span}.{shown}{lack}"


def _against(bets: Sequence[Bet], mean: float, *, above: bool) -> float:
    """Capital of bets on a lift above (or below) ``mean``, scaled so that none can lose more than its stake."""
    sign, scale = (1.0 if above else -1.0), 1.0 + abs(mean)
    return e_value([max(-1.0, min(1.0, sign * (bet.gain - bet.weight * mean) / scale)) for bet in bets])


def _bound(bets: Sequence[Bet], enough: float, *, above: bool) -> float:
    """The mean farthest from -1 (or 1) that is excluded; bisection, for the capital falls as the mean comes nearer."""
    out = -1.0 if above else 1.0
    if not bets or _against(bets, out, above=above) < enough:
        return out
    inside = sum(bet.gain for bet in bets) / sum(bet.weight for bet in bets)
    for _ in range(_HALVINGS):
        middle = (out + inside) / 2
        if _against(bets, middle, above=above) >= enough:
            out = middle
        else:
            inside = middle
    return out
