"""Families: which kept fault belongs where, and how the next one of a family is found in a workshop."""

from __future__ import annotations

from .faults import Fault
from .laboratory import Failure
from .plan import CLEAR, CROSS_FILE, MISLEADING, TWO_SITE, WEAK
from .workshop import Kept, Workshop

NEAR_LINES = 10
"""An exception is close to its fault in the same function, at most this many lines away."""

TRIALS = 16
"""Most faults that are tried on one source for one task."""

RAISING = frozenset(
    [
        "wrong_name",
        "argument_swap",
        "removed_statement",
        "missing_call",
        "wrong_method",
        "off_by_one",
        "wrong_attribute",
        "statement_order",
        "swapped_targets",
        "missing_guard",
        "exception_type",
    ]
)
"""Operators that often end in an exception."""

AWAY = frozenset(
    [
        "missing_return",
        "removed_statement",
        "wrong_attribute",
        "wrong_default",
        "missing_call",
        "constant",
        "boundary_slice",
    ]
)
"""Operators whose exception often comes up elsewhere."""


def near(fault: Fault, failure: Failure) -> bool:
    """Whether an exception was raised close to the fault."""
    same = failure.path == fault.path and fault.first <= failure.line <= fault.last
    return failure.kind == "raise" and same and abs(failure.line - fault.line) <= NEAR_LINES


def fitting(workshop: Workshop, kept: Kept, family: str) -> frozenset[int]:
    """The failing visible cases that make a single fault one of ``family``; empty when it is none.

    clear_traceback: an exception close to the fault. misleading_traceback: exceptions, none of them close.
    weak_issue: any failure. All three enter the package through the fault's file; cross_file does not.
    """
    fault = kept.faults[0]
    visible = [f for f in kept.failures.values() if workshop.cases[f.case].visible]
    home = [f for f in visible if workshop.base.covered[f.case]["entry"] == fault.path]
    close = [f for f in home if near(fault, f)]
    raised = [f for f in home if f.kind == "raise" and f.path]
    found = {
        CLEAR: close,
        MISLEADING: [] if close else raised,
        CROSS_FILE: [f for f in visible if f not in home],
        WEAK: home,
    }[family]
    return frozenset(f.case for f in found)


def next_task(workshop: Workshop, family: str, in_vocabulary: bool) -> tuple[Kept, frozenset[int]] | None:
    """The next kept fault of a family, with the failing cases to show; None when none is found in time."""
    return pair(workshop, in_vocabulary) if family == TWO_SITE else single(workshop, family, in_vocabulary)


def single(workshop: Workshop, family: str, in_vocabulary: bool) -> tuple[Kept, frozenset[int]] | None:
    """One fault."""
    for kept in workshop.reservoir:
        cases = fitting(workshop, kept, family)
        if kept.in_vocabulary == in_vocabulary and cases and unused(workshop, kept):
            return take(workshop, kept, cases)
    wanted = RAISING if family == CLEAR else AWAY if family == MISLEADING else frozenset()
    for fault, _ in zip(workshop.fresh(in_vocabulary, wanted, family == CROSS_FILE), range(TRIALS), strict=False):
        tried = workshop.attempt((fault,))
        if tried is None:
            continue
        workshop.reservoir.append(tried)
        cases = fitting(workshop, tried, family)
        if cases:
            return take(workshop, tried, cases)
    return None


def pair(workshop: Workshop, in_vocabulary: bool) -> tuple[Kept, frozenset[int]] | None:
    """Two faults in different functions, each seen by visible and hidden tests of its own accord."""
    attempts = 0
    for turn in range(2):
        ready = [k for k in workshop.reservoir if unused(workshop, k)]
        for a in ready:
            for b in ready[ready.index(a) + 1 :]:
                if (a.in_vocabulary and b.in_vocabulary) != in_vocabulary or a.faults[0].function == b.faults[
                    0
                ].function:
                    continue
                attempts += 1
                if attempts > TRIALS // 2:
                    return None
                both = workshop.attempt((*a.faults, *b.faults))
                shown = [both_fail(workshop, single, both) for single in (a, b)] if both else []
                if both and all(shown):
                    return take(workshop, both, frozenset(min(s) for s in shown))
        if turn == 0:
            explore(workshop, in_vocabulary, TRIALS // 2)
            explore(workshop, True, TRIALS // 4)
    return None


def explore(workshop: Workshop, in_vocabulary: bool, most: int) -> None:
    """Try some faults for later."""
    for fault, _ in zip(workshop.fresh(in_vocabulary, frozenset(), False), range(most), strict=False):
        kept = workshop.attempt((fault,))
        if kept is not None:
            workshop.reservoir.append(kept)


def both_fail(workshop: Workshop, alone: Kept, both: Kept) -> set[int]:
    """Visible cases that fail with one fault alone and with both; empty unless hidden cases do so, too."""
    shared = set(alone.failures) & set(both.failures)
    visible = {n for n in shared if workshop.cases[n].visible}
    return visible if len(visible) < len(shared) else set()


def unused(workshop: Workshop, kept: Kept) -> bool:
    """Whether no task has a fault on the same line."""
    return all((f.path, f.line) not in workshop.used for f in kept.faults)


def take(workshop: Workshop, kept: Kept, cases: frozenset[int]) -> tuple[Kept, frozenset[int]]:
    """Mark the fault's lines as used."""
    workshop.used.update((f.path, f.line) for f in kept.faults)
    return kept, cases
