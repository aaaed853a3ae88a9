"""The informativeness gate: can this suite, with this solver, show a difference between topologies at all?

Asked on dev, before any controller is trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from .episodes import EpisodeRow, require_one_digest
from .intervals import Interval
from .lift import lift_between
from .summary import ArmSummary, summarize_arm
from .verdict import points

BEST_STATIC_SHARE = (0.25, 0.65)
DISCORDANCE = 0.15
ORACLE_GAIN = 0.05
MESSAGE_SHARE = (0.20, 0.60)
REPEATS = 3


@dataclass(frozen=True, slots=True)
class GateCheck:
    """One figure of the gate. ``passed`` is None where only the figure is asked for, or where it was not measured."""

    name: str
    value: float | None
    wanted: str
    passed: bool | None
    detail: str = ""
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """All figures."""

    checks: tuple[GateCheck, ...]
    arms: tuple[ArmSummary, ...]

    @property
    def passed(self) -> bool:
        """Whether every check that has a threshold was measured and met."""
        return all(check.passed for check in self.checks if check.wanted)


def evaluate_gate(
    rows: Iterable[EpisodeRow], *, statics: Sequence[str], schedules: Sequence[str] = (), seed: int = 0
) -> Gate:
    """The gate's figures from episodes on dev.

    Statics and schedules are compared on the lowest seed that a task has; the best static needs two seeds more, so
    that what an oracle gains by choosing among three topologies can be told from what three attempts gain.
    Raises NotComparableError for mixed digests or unpaired arms, ValueError without two statics.
    """
    rows = list(rows)
    require_one_digest(rows)
    if len(statics) < 2:
        raise ValueError("the gate compares at least two static topologies")
    first = _first_seed(rows)
    summaries = [summarize_arm(first, name, seed=seed) for name in (*statics, *schedules)]
    best = max(summaries[: len(statics)], key=lambda s: s.success)
    checks = [
        _best_static(best),
        *(_discordance(first, a, b) for a, b in combinations(statics, 2)),
        _oracle(rows, first, statics, best),
        _best_schedule(first, summaries[len(statics) :], best, seed),
        _messages([r for r in first if r.arm in statics]),
    ]
    return Gate(tuple(checks), tuple(summaries))


def _best_static(best: ArmSummary) -> GateCheck:
    low, high = BEST_STATIC_SHARE
    return GateCheck(
        "best static",
        best.success,
        f"{low:.0%} to {high:.0%}",
        low <= best.success <= high,
        f"{best.arm} on {best.tasks} tasks",
        best.interval,
    )


def _discordance(rows: Sequence[EpisodeRow], one: str, other: str) -> GateCheck:
    lift = lift_between(rows, one, other)
    return GateCheck(
        f"discordance of {one} and {other}",
        lift.discordance,
        f"at least {DISCORDANCE:.0%}",
        lift.discordance >= DISCORDANCE,
        f"{lift.wins} tasks for {one}, {lift.losses} for {other}, of {lift.tasks}",
    )


def _oracle(
    rows: Sequence[EpisodeRow], first: Sequence[EpisodeRow], statics: Sequence[str], best: ArmSummary
) -> GateCheck:
    """Solved by any static, minus solved by the best static in any of three runs; both have their chance of luck."""
    name, wanted = "oracle static beyond the best static run three times", f"at least {points(ORACLE_GAIN)}"
    any_static: dict[str, bool] = {}
    for row in first:
        if row.arm in statics:
            any_static[row.task_id] = any_static.get(row.task_id, False) or (row.success and row.judged)
    attempts: dict[str, list[EpisodeRow]] = {}
    for row in rows:
        if row.arm == best.arm:
            attempts.setdefault(row.task_id, []).append(row)
    tasks = [task for task in any_static if len(attempts.get(task, ())) >= REPEATS]
    if not tasks:
        return GateCheck(name, None, wanted, None, f"not measured: {best.arm} needs {REPEATS} seeds")
    oracle = sum(any_static[task] for task in tasks) / len(tasks)
    repeated = sum(any(r.success and r.judged for r in _earliest(attempts[task])) for task in tasks) / len(tasks)
    detail = (
        f"oracle {oracle:.1%}, {best.arm} in {REPEATS} runs {repeated:.1%}, once {best.success:.1%}; {len(tasks)} tasks"
    )
    return GateCheck(name, oracle - repeated, wanted, oracle - repeated >= ORACLE_GAIN, detail)


def _best_schedule(
    rows: Sequence[EpisodeRow], schedules: Sequence[ArmSummary], best: ArmSummary, seed: int
) -> GateCheck:
    name = f"best of {len(schedules)} fixed schedules against the best static"
    if not schedules:
        return GateCheck(name, None, "", None, "not measured: no schedule was run")
    winner = max(schedules, key=lambda s: s.success)
    lift = lift_between(rows, winner.arm, best.arm, seed=seed)
    detail = f"{winner.arm} {winner.success:.1%} against {best.arm} {best.success:.1%}; both picked on these tasks"
    return GateCheck(name, lift.estimate, "", None, detail, lift.interval)


def _messages(rows: Sequence[EpisodeRow]) -> GateCheck:
    low, high = MESSAGE_SHARE
    tokens = sum(row.tokens or 0 for row in rows)
    share = sum(row.message_tokens for row in rows) / tokens if tokens else 0.0
    return GateCheck("messages' share of tokens", share, f"{low:.0%} to {high:.0%}", low <= share <= high)


def _first_seed(rows: Sequence[EpisodeRow]) -> list[EpisodeRow]:
    lowest: dict[str, int] = {}
    for row in rows:
        lowest[row.task_id] = min(row.seed, lowest.get(row.task_id, row.seed))
    return [row for row in rows if row.seed == lowest[row.task_id]]


def _earliest(rows: Sequence[EpisodeRow]) -> list[EpisodeRow]:
    return sorted(rows, key=lambda row: row.seed)[:REPEATS]
