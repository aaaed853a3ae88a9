"""What the finished runs of a plan say: lifts of every part, and the decision by the registered rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..analysis import (
    ArmRole,
    EpisodeRow,
    Lift,
    RunData,
    arm_role,
    decide,
    estimate_lift,
    holm,
    oracle_success,
    pair,
    read_run,
    repeated_success,
    summarize_arm,
)
from .planfile import Part, PlanFile


@dataclass(frozen=True)
class Rung:
    """One run folder, judged."""

    folder: str
    part: str
    budget: int
    level: str
    arms: tuple[Mapping[str, Any], ...]
    """Per arm: tasks, success with its interval, tokens, switches, infrastructure failures."""
    lifts: tuple[Lift, ...]
    """Of the part's first arm over every other one."""
    holm: Mapping[str, float]
    """Holm-adjusted mid-p of these lifts, by the other arm."""
    oracle_static: float | None
    """Success of the best static topology per episode, in hindsight."""
    repeated_static: float | None
    """The best static topology run three times: what luck alone brings."""


@dataclass(frozen=True)
class Decision:
    """GO, KILL or EXTEND."""

    word: str
    sentence: str
    registered: bool
    """Whether the rule was registered before the first episode; without that it is exploratory."""
    lifts: tuple[Lift, ...]
    missing: tuple[str, ...]
    detectable: float | None
    excluded: int
    """Episodes that the registered exclusions leave out, infrastructure failures not among them."""


def judge_rung(part: Part, folder: Path, budget: int) -> Rung:
    """Read and summarise one run folder. Raises ArtifactError, NotComparableError."""
    run = read_run(folder)
    statics = [name for name in part.arms if arm_role(name, run.arms.get(name)) is ArmRole.STATIC]
    first, *others = part.arms
    lifts = tuple(estimate_lift(pair(run.rows, first, name)) for name in others)
    best = part.best_static or _best_of(run.rows, statics)
    return Rung(
        folder.name,
        part.name,
        budget,
        run.level,
        tuple(_summary(run, name, budget) for name in part.arms),
        lifts,
        holm({lift.against: lift.p_mid for lift in lifts}),
        oracle_success(run.rows, statics),
        repeated_success(run.rows, best) if best else None,
    )


def decide_plan(plan: PlanFile, out: Path, *, registered: bool = False) -> Decision | None:
    """The decision on the registered claim, by the rule of ``analysis.decide`` at the registered level; None without one."""
    said, part = plan.prereg, plan.primary
    if said is None or part is None:
        return None
    budget = said.budget or part.budgets[0]
    folder = next(name for name, tokens in part.folders.items() if tokens == budget)
    run = read_run(out / folder)
    rows = [row for row in run.rows if not said.excludes(row.family, row.task_id)]
    lifts = {name: estimate_lift(pair(rows, said.arm, name), confidence=said.confidence) for name in said.against}
    roles = {name: arm_role(name, run.arms.get(name)) for name in said.against}
    single = next((name for name, role in roles.items() if role is ArmRole.SINGLE), None)
    verdict = decide(
        said.arm,
        lifts,
        statics=[name for name, role in roles.items() if role is ArmRole.STATIC],
        single=single,
        best_static=part.best_static,
        best_static_from="dev" if part.best_static else "",
    )
    detectable = [lift.detectable for lift in lifts.values()]
    return Decision(
        verdict.decision,
        verdict.sentence,
        registered,
        tuple(lifts.values()),
        verdict.missing,
        None if None in detectable else max(d for d in detectable if d is not None),
        len(run.rows) - len(rows),
    )


def to_json(value: Rung | Decision) -> dict[str, Any]:
    """Plain dict."""
    return asdict(value)


def _summary(run: RunData, name: str, budget: int) -> dict[str, Any]:
    found = summarize_arm(run.rows, name, budget=budget)
    return {
        "arm": name,
        "policy": run.policies.get(name),
        "tasks": found.tasks,
        "episodes": found.episodes,
        "success": found.success,
        "success_of_all": found.success_of_all,
        "low": found.interval.low,
        "high": found.interval.high,
        "tokens": found.tokens,
        "switches": found.switches,
        "infrastructure": found.infrastructure,
    }


def _best_of(rows: Sequence[EpisodeRow], statics: Sequence[str]) -> str:
    return max(statics, key=lambda name: summarize_arm(rows, name).success, default="")
