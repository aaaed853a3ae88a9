"""What the finished runs of a plan say: lifts of every part, and the decision by the registered rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
    merge_runs,
    oracle_success,
    pair,
    points,
    read_run,
    repeated_success,
    summarize_arm,
)
from .looks import TakenLook, left_out
from .planfile import Part, PlanFile
from .prereg import PreRegistration


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
    """Holm-adjusted ``Lift.p`` of these lifts, by the other arm."""
    oracle_static: float | None
    """Success of the best static topology per episode, in hindsight."""
    repeated_static: float | None
    """The best static topology run three times: what luck alone brings."""
    runs: tuple[str, ...] = ()
    """Run folders, where looks made several of one."""


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
    hypothesis: str = ""
    rule: str = ""
    """The registered rule, in words."""
    looks: tuple[TakenLook, ...] = ()
    """Of the sequential rule: all that were taken; the last one is the decision."""


def judge_rung(part: Part, folder: Path, budget: int) -> Rung:
    """Read and summarise one run folder. Raises ArtifactError, NotComparableError."""
    return _judged(part, read_run(folder), folder.name, budget)


def judge_looked_at(plan: PlanFile, out: Path, looks: Sequence[TakenLook]) -> Rung:
    """The same of the part that was run from look to look; its lifts are those of the looks, and nothing is tested twice.

    Raises ArtifactError, NotComparableError.
    """
    part = plan.primary
    assert part is not None
    runs = plan.runs(part)[: len(looks)]
    run = merge_runs([read_run(out / found.folder) for found in runs])
    rung = _judged(part, run, part.name, part.budgets[0])
    return replace(rung, lifts=(), holm={}, runs=tuple(found.folder for found in runs))


def _judged(part: Part, run: RunData, folder: str, budget: int) -> Rung:
    statics = [name for name in part.arms if arm_role(name, run.arms.get(name)) is ArmRole.STATIC]
    first, *others = part.arms
    lifts = tuple(_lifts(run.rows, first, others).values())
    best = part.best_static or _best_of(run.rows, statics)
    return Rung(
        folder,
        part.name,
        budget,
        run.level,
        tuple(_summary(run, name, budget) for name in part.arms),
        lifts,
        holm({lift.against: lift.p for lift in lifts}),
        oracle_success(run.rows, statics),
        repeated_success(run.rows, best) if best else None,
    )


def decide_plan(
    plan: PlanFile, out: Path, looks: Sequence[TakenLook] = (), *, registered: bool = False
) -> Decision | None:
    """The decision on the registered claim, by the rule of ``analysis.decide`` at the registered level; None without one.

    Of a sequential plan it is that of the last of its ``looks``, as it was written.
    """
    said, part = plan.prereg, plan.primary
    if said is None or part is None:
        return None
    if said.sequential:
        last = looks[-1]
        return Decision(
            last.decision,
            last.sentence,
            registered,
            (),
            last.missing,
            None,
            last.excluded,
            said.hypothesis,
            rule_of(said),
            tuple(looks),
        )
    budget = said.budget or part.budgets[0]
    folder = next(name for name, tokens in part.folders.items() if tokens == budget)
    run = read_run(out / folder)
    rows = [row for row in run.rows if not said.excludes(row.family, row.task_id)]
    lifts = _lifts(rows, said.arm, said.against, said.confidence)
    untold = left_out(plan, run)
    needed = [*said.against, *untold]
    roles = {name: arm_role(name, run.arms.get(name)) for name in needed}
    single = next((name for name, role in roles.items() if role is ArmRole.SINGLE), None)
    statics = [name for name, role in roles.items() if role is ArmRole.STATIC]
    verdict = decide(
        said.arm,
        lifts,
        statics=statics,
        single=single,
        others=[name for name in needed if name not in (*statics, single)],
        best_static=part.best_static,
        best_static_from="dev" if part.best_static else "",
        claim=said.claim,
    )
    detectable = [lift.detectable for lift in lifts.values()]
    return Decision(
        verdict.decision,
        f"{verdict.sentence} Nothing is said of {', '.join(untold)}: not registered." if untold else verdict.sentence,
        registered,
        tuple(lifts.values()),
        verdict.missing,
        None if None in detectable else max((d for d in detectable if d is not None), default=None),
        len(run.rows) - len(rows),
        said.hypothesis,
        rule_of(said),
    )


def rule_of(said: PreRegistration) -> str:
    """The registered rule, in words."""
    against, gain = ", ".join(said.against), points(said.claim)
    if not said.sequential:
        return (
            f"one look, when all episodes are there: GO when {said.arm} is above each of {against} (one-sided, alpha "
            f"{said.alpha:g} each) and gains {gain} over the best static topology; KILL when its upper bound is below that"
        )
    return (
        f"looks at {', '.join(map(str, said.looks))} tasks, by {said.unit}: GO when the e-value of {said.arm} against "
        f"each of {against} has reached {1 / said.alpha:g} and it gains {gain} over the best static topology; KILL "
        f"when that of a gain below {gain} has"
    )


def to_json(value: Rung | Decision) -> dict[str, Any]:
    """Plain dict."""
    return asdict(value)


def _lifts(rows: Sequence[EpisodeRow], arm: str, others: Sequence[str], confidence: float = 0.95) -> dict[str, Lift]:
    """Against every arm with which there is a judged pair: infrastructure may have failed all episodes of one."""
    pairings = {name: pair(rows, arm, name) for name in others}
    return {name: estimate_lift(found, confidence=confidence) for name, found in pairings.items() if found.tasks}


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
