"""The informativeness gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from apex_framework.analysis import Gate, GateCheck, evaluate_gate

from .episodes import Episodes, unpacked
from .numbers import signed, upper_bound

PLANTED = (
    ("the same 11 of 40 tasks", "the same 12 of 40 tasks"),
    ("27.5 % (13.2 to 46.3)", "37.5 % (13.2 to 46.3)"),
    ("36.2 %", "26.2 %"),
    ("(−6.1 to +6.1)", "(−6.1 to +6.7)"),
    ("| clear_traceback | 12 | 6 |", "| clear_traceback | 12 | 7 |"),
)
GIVEN = (
    "of 10,000 tokens",
    "(CPython 3.11.7)",
    "Two busy cores, 23 minutes.",
    "the first gate had 24 tasks",
    "| 25 to 65 % |",
    "| at least 15 % |",
    "| at least 5 pp |",
    "| 20 to 60 % |",
    "one-sided 95 % bound",
    "below the 15 % that is wanted",
)
MARK = {True: "ok", False: "failed", None: ""}


def claims(home: Path) -> Iterator[str]:
    runs = unpacked("gate", home)
    statics, schedules = runs["statics"], runs["schedules"]
    arms = (*statics.data.arms, *schedules.data.arms)
    tasks, rows = len(statics.data.tasks), (*statics.rows, *schedules.rows)
    seeds = len({row.seed for row in statics.rows})
    solved = {frozenset(row.task_id for row in rows if row.arm == arm and row.success) for arm in arms}
    every = {
        frozenset(row.task_id for row in statics.rows if (row.arm, row.seed) == key and row.success)
        for key in {(row.arm, row.seed) for row in statics.rows}
    }
    (same,) = solved | every
    yield f"# The informativeness gate: {tasks} tasks of `mini/dev`, all five families"
    yield (
        f"All {len(arms)} teams (three static topologies, {len(schedules.data.arms)} fixed phase schedules) solve the same {len(same)} of {tasks} tasks,"
    )
    assert seeds == 3
    yield f"each static topology solves the same {len(same)} with each of three seeds."
    yield f"Among the {tasks} no task exists on which a choice of topology could have helped: neither the best of {len(schedules.data.arms)} schedules"
    assert all(row.judged and (row.tokens or 0) <= 10_000 for row in rows)
    yield (
        f"{len(rows):,} episodes of 10,000 tokens ({len(statics.data.arms)} statics × {seeds} seeds and {len(schedules.data.arms)} schedules × 1, {tasks} tasks),"
    )
    yield f"Suite digest `{statics.suite_digest}`"
    yield f"plan digests `{statics.digest}` (statics) and `{schedules.digest}` (schedules)"
    yield f"The {tasks} tasks come from {len(set(statics.data.tasks.values()))} modules"
    yield from figures_of(asked(statics, schedules, list(statics.data.tasks)))
    yield f"| discordance of star and chain, star and flat, chain and flat | 0 of {tasks} tasks, each |"
    yield f"0 of {tasks} discordant tasks: the one-sided 95 % bound on the share is {float(upper_bound(tasks)):.1f} % (Clopper-Pearson)"
    for name, of, *cells in statics.tables["Solved per family"][2:]:
        (share,) = set(cells)
        yield f"| {name} | {of} | {float(share.split()[0]) * int(of) / 100:.0f} |"
    yield f"{tasks} tasks, one budget, one team."


def asked(statics: Episodes, schedules: Episodes, tasks: Sequence[str]) -> Gate:
    """The gate over these tasks."""
    rows = [row for row in (*statics.rows, *schedules.rows) if row.task_id in tasks]
    return evaluate_gate(rows, statics=list(statics.data.arms), schedules=list(schedules.data.arms))


def figures_of(gate: Gate) -> Iterator[str]:
    """Rows of the table of figures; the pairs of statics, which no task tells apart, make one row, which the page words."""
    best, *pairs, oracle, schedule, messages = gate.checks
    assert [pair.value for pair in pairs] == [0, 0, 0] and oracle.value == 0
    yield f"| best static | {_share(best)} | {_range(best)} | {MARK[best.passed]} |"
    yield f"| oracle static beyond the best one run three times | {100 * oracle.value:.1f} pp ({_share(best).partition(' (')[0]} both)"
    assert schedule.value is not None and schedule.interval is not None
    low, high = (signed(f"{100 * end:+.1f}") for end in (schedule.interval.low, schedule.interval.high))
    count = sum(arm.arm.startswith("schedule:") for arm in gate.arms)
    yield f"| best of {count} schedules against the best static | {100 * schedule.value:.1f} pp ({low} to {high}) | – | |"
    yield f"| messages' share of tokens | {_share(messages)} | {_range(messages)} | {MARK[messages.passed]} |"


def _share(check: GateCheck) -> str:
    assert check.value is not None
    span = f" ({100 * check.interval.low:.1f} to {100 * check.interval.high:.1f})" if check.interval else ""
    return f"{100 * check.value:.1f} %{span}"


def _range(check: GateCheck) -> str:
    return check.wanted.replace("% to", " to").replace("%", " %")
