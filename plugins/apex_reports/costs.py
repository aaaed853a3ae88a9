"""Tables of what the harness costs, of failures with both denominators, and of denials."""

from __future__ import annotations

from collections.abc import Sequence

from apex_framework.analysis import Answer, clopper_pearson_upper, percentile

from .arms import UNTIMED
from .budget import Proof
from .cells import UNTOLD, Table, percent, recorded, told
from .observed import Conduct, Observed

FINISHED = "finished"
ENDINGS = 12
"""Endings that a table lists; the rest is one row."""


def overheads(answer: Answer, observed: Observed) -> Table:
    """Wall time of deciding, episode time of switching, and the whole."""
    rows = []
    timed, switched = costs_time(observed), any(seen.moves or seen.aborts for seen in observed.arms.values())
    for arm in answer.arms:
        seen = observed.arms.get(arm.arm, Conduct())
        rows.append(
            (
                arm.arm,
                _span(seen.decide_ms, "{:.3f}"),
                _span(seen.observe_ms, "{:.3f}"),
                _span(seen.learn_ms, "{:.3f}"),
                _span(seen.switch_ms, "{:.2f}") if timed else UNTOLD,
                _span(seen.wall_ms, "{:,.0f}"),
                percent(arm.message_share),
            )
        )
    if recorded(answer):
        waits = ((a.arm, _span(observed.arms.get(a.arm, Conduct()).wall_ms, "{:,.0f}")) for a in answer.arms)
        spans = [(arm, span) for arm, span in waits if span != "-"]
        return Table(
            "Overheads",
            ("arm", "episode"),
            tuple(spans),
            ("Medians and 95th percentiles of wall time in milliseconds.",),
        )
    switch = "; switch: episode time, in which work takes none unless the run went by the machine's clock"
    table = Table(
        "Overheads",
        ("arm", "decide", "observe", "learn", "switch", "episode", "messages"),
        tuple(rows),
        (
            f"Medians and 95th percentiles in milliseconds. decide, observe, learn, episode: wall time{switch if timed else ''}.",
            *((UNTIMED,) if switched and not timed else ()),
            "messages: share of tokens that came from other agents' messages.",
        ),
    )
    return told(table)


def costs_time(observed: Observed) -> bool:
    """Whether any phase of any switch took episode time."""
    return any(any(values) for seen in observed.arms.values() for values in seen.phases.values())


def phases(answer: Answer, observed: Observed) -> Table:
    """Phases of switches per arm, aborted ones included; no rows where none took time."""
    rows = [
        (arm.arm, phase, f"{len(values):,}", _span(values, "{:.2f}"), f"{max(values):.2f}")
        for arm in answer.arms
        for phase, values in observed.arms.get(arm.arm, Conduct()).phases.items()
        if costs_time(observed)
    ]
    return Table("Phases of switches", ("arm", "phase", "switches", "median and 95 %, ms", "longest, ms"), tuple(rows))


def failures(answer: Answer) -> Table:
    """Success by both denominators."""
    ours = not recorded(answer)
    table = Table(
        "Success by both denominators",
        ("arm", "episodes", "judged", "not run", "solved of judged", "solved of all", "overfit"),
        tuple(
            (
                arm.arm,
                f"{arm.episodes:,}",
                f"{arm.judged:,}",
                f"{arm.infrastructure:,}",
                percent(arm.success),
                percent(arm.success_of_all),
                percent(arm.overfit) if ours else UNTOLD,
            )
            for arm in answer.arms
        ),
        (
            "not run: failed for infrastructure, neither solved nor unsolved in the first share and unsolved in the second.",
            *(("overfit: passes the visible tests and fails the hidden ones.",) if ours else ()),
        ),
    )
    return told(table)


def endings(answer: Answer, observed: Observed) -> Table:
    """How episodes ended that solved nothing."""
    names = [arm.arm for arm in answer.arms]
    total: dict[str, int] = {}
    for name in names:
        for reason, count in observed.arms.get(name, Conduct()).endings.items():
            if reason != FINISHED or not recorded(answer):  # all that an imported verdict says
                total[reason] = total.get(reason, 0) + count
    order = sorted(total, key=lambda reason: (-total[reason], reason))
    rows = [(reason or "no reason given", *_counts(names, observed, (reason,))) for reason in order[:ENDINGS]]
    if order[ENDINGS:]:
        rows.append((f"{len(order) - ENDINGS} other endings", *_counts(names, observed, order[ENDINGS:])))
    return Table("How episodes ended that solved nothing", ("ending", *names), tuple(rows))


def proof(answer: Answer, found: Sequence[Proof], observed: Observed) -> Table:
    """Used at most, violations with their bound, and whether all calls come to what was booked."""
    denied = {arm.arm: arm.denied for arm in answer.arms}
    return Table(
        "Budget proof",
        ("arm", "budget", "episodes", "over", "95 % bound", "most used", "by", "calls agree", "denied", "by scope"),
        tuple(
            (
                p.arm,
                f"{p.budget:,}",
                f"{p.episodes:,}",
                f"{p.over:,}",
                f"≤ {100 * clopper_pearson_upper(p.over, p.episodes):.2f} %",
                f"{p.most:,} ({percent(p.most / p.budget)})",
                f"{p.worst.task_id}, seed {p.worst.seed}",
                f"{p.agreeing:,} of {p.checked:,}" if p.checked else "-",
                f"{denied.get(p.arm, 0.0):.2f}",
                _scopes(observed.arms.get(p.arm, Conduct())),
            )
            for p in found
        ),
        (
            "over: episodes that used more tokens than their budget; 95 % bound: one-sided, Clopper-Pearson, on their rate.",
            "calls agree: episodes in which the tokens of all settled calls come to what the episode's own line says, of those "
            "with calls on file. denied: calls per episode that were refused before they were made, by the scope that refused.",
        ),
    )


def _scopes(conduct: Conduct) -> str:
    return ", ".join(f"{scope} {count:,}" for scope, count in sorted(conduct.denials.items())) or "-"


def _counts(names: Sequence[str], observed: Observed, reasons: Sequence[str]) -> list[str]:
    return [f"{sum(observed.arms.get(name, Conduct()).endings[r] for r in reasons):,}" for name in names]


def _span(values: Sequence[float], form: str) -> str:
    return f"{form.format(percentile(values, 0.5))} · {form.format(percentile(values, 0.95))}" if values else "-"
