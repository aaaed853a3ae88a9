"""Tables of what arms differ in: the comparisons of the verdict, and all paired lifts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from apex_framework.analysis import Answer, ArmRole, Lift, p_text, points

from .cells import Table

DIFFERING = re.compile(r"arms differ in (\d+) clusters")
"""In the name of an interval's method."""


def rests(answer: Answer) -> Table:
    """The comparisons that the verdict rests on; BETTER needs every one of them."""
    verdict = answer.verdicts[0] if answer.verdicts else None
    return Table(
        "What the verdict rests on",
        ("against", "role", "points", "97.5 % lower bound", "97.5 % upper bound", "above zero"),
        tuple(
            (
                lift.against,
                str(answer.roles.get(lift.against, "")),
                points(lift.estimate),
                points(lift.interval.low),
                points(lift.interval.high),
                "yes" if lift.interval.low > 0 else "no",
            )
            for lift in (verdict.lifts if verdict else ())
        )
        + tuple((missing, "not in the run", "-", "-", "-", "no") for missing in (verdict.missing if verdict else ())),
        (
            "BETTER needs a lower bound above zero in every row; WORSE an upper bound below zero against the best static.",
        ),
    )


def headline(answer: Answer) -> str:
    """The arm whose lifts come first; empty without lifts."""
    return answer.verdicts[0].arm if answer.verdicts else answer.lifts[0].arm if answer.lifts else ""


def further(answer: Answer) -> list[str]:
    """The other arms that lifts are told of."""
    return list(dict.fromkeys(lift.arm for lift in answer.lifts if lift.arm != headline(answer)))


def lifts(answer: Answer, *, page: bool = False) -> Table:
    """Paired lifts of the headline's arm, with notes that explain them; verdicts on further arms, and where their lifts are."""
    shown = [lift for lift in answer.lifts if lift.arm == headline(answer)]
    methods = _methods(shown)
    pairs = f"{shown[0].judged_pairs:,} pairs of {shown[0].tasks:,} tasks: " if shown else ""
    notes = [
        f"intervals: {'; '.join(methods)}. McNemar p: exact, two-sided, tasks independent. cluster p: sign flips of whole "
        "clusters, two-sided. Holm: of cluster p, or of McNemar's where every cluster is one task, over all but the verdict's "
        "own comparisons, which need none because all of them must hold.",
        f"detectable: smallest true lift that so many tasks show with 80 % power, by {_detectable(shown)}."
        + (
            " none: the two arms differ on so few tasks or clusters that no lift would be shown with that power."
            if any(not lift.detectable for lift in shown)
            else ""
        ),
        f"pairs: of task and seed, judged of planned. {pairs}seeds are averaged within a task, and tasks are what is counted.",
        *(verdict.sentence for verdict in answer.verdicts[1:]),
    ]
    if (others := further(answer)) and not page:
        count = sum(lift.arm in others for lift in answer.lifts)
        notes.append(
            f"{count} more lifts, of {', '.join(others)}: apex report RUN --format html --figures DIR has them on the "
            "page and in forest.csv."
        )
    return _lifts("Paired lifts", shown, answer, notes)


def _methods(shown: Sequence[Lift]) -> list[str]:
    """The methods of intervals, those that differ in a count of clusters alone as one."""
    counts: dict[str, set[int]] = {}
    for lift in shown:
        method = lift.interval.method
        found = DIFFERING.search(method)
        counts.setdefault(DIFFERING.sub("arms differ in {}", method), set()).update({int(found[1])} if found else ())
    spans = {stem: f"{min(n)} to {max(n)}" if len(n) > 1 else str(*n) for stem, n in counts.items()}
    return sorted(stem.replace("arms differ in {}", f"arms differ in {span} clusters") for stem, span in spans.items())


def _detectable(shown: Sequence[Lift]) -> str:
    """Where the detectable lifts come from."""
    return " or ".join(dict.fromkeys(lift.detectable_method for lift in shown)) or "the discordance observed"


def further_lifts(answer: Answer) -> Table:
    """Those of all other arms."""
    return _lifts("Paired lifts of further arms", [x for x in answer.lifts if x.arm in further(answer)], answer, ())


def _lifts(title: str, shown: Sequence[Lift], answer: Answer, notes: Sequence[str]) -> Table:
    head = (
        "lift of",
        "against",
        "points",
        "95 % interval",
        "won",
        "lost",
        "McNemar p",
        "cluster p",
        "Holm p",
        "detectable",
        "pairs",
    )
    return Table(title, head, tuple(_lift(lift, answer) for lift in shown), tuple(notes))


def _lift(lift: Lift, answer: Answer) -> tuple[str, ...]:
    adjusted = answer.holm.get(f"{lift.arm} - {lift.against}")
    role = " (single agent)" if answer.roles.get(lift.against) is ArmRole.SINGLE and lift.against != "single" else ""
    return (
        lift.arm,
        lift.against + role,
        points(lift.estimate),
        f"{points(lift.interval.low)} to {points(lift.interval.high)}",
        str(lift.wins),
        str(lift.losses),
        p_text(lift.p_exact),
        p_text(lift.p_cluster) if lift.clusters < lift.tasks else "-",
        "-" if adjusted is None else p_text(adjusted),
        points(lift.detectable) if lift.detectable else "none",
        f"{lift.judged_pairs} of {lift.planned_pairs}",
    )
