"""``apex compare``: paired lifts of finished runs, after checking that they can be compared."""

from __future__ import annotations

from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from .checked import check_finished
from .context import Context
from .numbers import counts_of

if TYPE_CHECKING:
    from ..analysis import Answer, Lift, RunData

METHODS = {
    "estimate": "mean over tasks of the difference in success, seeds averaged inside a task",
    "interval": "95 %, its method beside it; each end is a one-sided 97.5 % bound",
    "p_exact": "McNemar, exact, two-sided",
    "p_mid": "McNemar, mid-p, two-sided",
    "p_cluster": "sign flips of whole clusters, two-sided",
    "detectable": "lift found with 80 % power by McNemar mid-p at the observed discordance, tasks independent",
    "holm": "Holm over the McNemar mid-p of all lifts but the headline's",
    "verdicts": "intersection-union: BETTER needs every lower 97.5 % bound above 0",
    "costs": "Hodges-Lehmann shift per task; Wilcoxon, or sign flips of clusters; Holm over all of them",
    "safety": "one-sided 95 % Clopper-Pearson bound on violations; overspend averaged over the violations",
}
"""What the numbers of the JSON are."""


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option("--arm", help="Compare this arm ...")
@click.option("--against", help="... with this one.")
@click.option("--best-static", default="", metavar="ARM", help="The static topology that was best on dev.")
@click.option("--margin", type=float, metavar="PP", help="Is ARM worse by less than so many points? One-sided 5 %.")
@click.option("--looks", metavar="N,N,…", help="Evidence at so many tasks of the plan, valid however often one looks.")
@click.option(
    "--unit", type=click.Choice(("task", "cluster")), default="task", show_default=True, help="What --looks bets on."
)
@click.option("--curve", is_flag=True, help="Success over the budgets of the runs, with bands.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the resampling.")
@click.pass_obj
def compare(
    context: Context,
    runs: tuple[Path, ...],
    arm: str | None,
    against: str | None,
    best_static: str,
    margin: float | None,
    looks: str | None,
    unit: str,
    curve: bool,
    seed: int,
) -> None:
    """Compare arms by (task, seed) within and across run folders.

    Refuses runs whose suite digests differ, episodes without a partner, and finished runs whose files were changed. With
    --arm and --against one lift is shown, else all lifts, costs and the verdict. --margin and --looks need both.
    """
    from ..analysis import merge_runs, read_run

    if (arm is None) != (against is None):
        raise UsageError("--arm and --against go together", "name both, or neither for all lifts")
    if arm is None and (margin is not None or looks is not None):
        raise UsageError("--margin and --looks compare two arms", "add --arm and --against")
    if arm is not None and arm == against:
        raise UsageError(f"--arm and --against are both {arm!r}", "name two arms")
    if curve and (arm is not None or best_static):
        raise UsageError("--curve shows all arms", "leave out --arm, --against and --best-static")
    if margin is not None and not 0.0 < margin < 100.0:
        raise UsageError(f"--margin {margin:g} is not between 0 and 100 percentage points", "e.g. --margin 2")
    wanted = counts_of("--looks", looks) if looks is not None else ()
    for run in runs:
        check_finished(context, run)
    read = [read_run(run) for run in runs]
    if curve:
        _curves(context, read, seed)
        return
    merged = merge_runs(read)
    if arm is not None and against is not None:
        _pair(context, merged, arm, against, margin, wanted, unit, seed)
        return
    answer = _answer(merged, best_static, seed)
    value, lines = _all(answer, seed)
    context.emit(value, "\n".join(lines) or "nothing to compare: the runs have no controller beside baselines")


def _pair(
    context: Context,
    merged: RunData,
    arm: str,
    against: str,
    margin: float | None,
    looks: tuple[int, ...],
    unit: str,
    seed: int,
) -> None:
    from ..analysis import cost_shifts, estimate_lift, non_inferiority, pair, sequential_test

    pairing = pair(merged.rows, arm, against)
    lift = estimate_lift(pairing, seed=seed)
    costs = cost_shifts(merged.rows, [(arm, against)], seed=seed)
    value: dict[str, Any] = {**asdict(lift), "costs": [asdict(cost) for cost in costs], "methods": METHODS}
    lines = [_line(lift), *(_cost(cost) for cost in costs)]
    if margin is not None:
        judged = non_inferiority(pairing, margin / 100, seed=seed)
        value["non_inferiority"] = asdict(judged)
        lines.append(f"{judged.sentence} ({judged.method})")
    if looks:
        run = {row.task_id for row in merged.rows if row.arm == arm}
        reached = sum(1 for _ in takewhile(run.__contains__, merged.tasks))
        test = sequential_test(pairing, merged.tasks, looks, reached=reached, unit=unit)
        value["sequential"] = {**asdict(test), "better_at": test.better_at}
        lines.append(f"{test.sentence} ({test.method})")
        if test.not_reached:
            lines.append(f"not reached: {', '.join(map(str, test.not_reached))}; {reached} tasks of the plan were run")
    context.emit(value, "\n".join(lines))


def _curves(context: Context, runs: list[RunData], seed: int) -> None:
    from ..analysis import rungs_of, success_curves

    rungs = rungs_of(runs)
    arms = list(dict.fromkeys(row.arm for rows in rungs.values() for row in rows))
    curves = success_curves(rungs, arms, seed=seed)
    lines = []
    for curve in curves:
        lines.append(f"{curve.arm} ({curve.tasks} tasks, {curve.clusters} clusters; {curve.method})")
        lines += [
            f"  {p.budget:>9,} tokens  {100 * p.success:5.1f} %  alone {100 * p.pointwise.low:.1f} to "
            f"{100 * p.pointwise.high:.1f} ({p.pointwise.method})  all rungs {100 * p.band.low:.1f} to "
            f"{100 * p.band.high:.1f}  over budget {p.violations}"
            for p in curve.points
        ]
    context.emit({"curves": [asdict(curve) for curve in curves]}, "\n".join(lines))


def _answer(merged: RunData, best_static: str, seed: int) -> Answer:
    """The answer, every arm on the same tasks and seeds. Raises NotComparableError."""
    from ..analysis import answer_of, pair

    arms = list(dict.fromkeys(row.arm for row in merged.rows))
    for other in arms[1:]:
        pair(merged.rows, arms[0], other)
    return answer_of(merged, best_static=best_static, seed=seed)


def _all(answer: Answer, seed: int) -> tuple[dict[str, Any], list[str]]:
    from ..analysis import cost_shifts

    pairs = [(lift.arm, lift.against) for lift in answer.lifts]
    costs = cost_shifts(answer.run.rows, pairs, seed=seed)
    safety = {arm.arm: asdict(arm.safety) for arm in answer.arms if arm.safety is not None}
    value = {
        "verdicts": [asdict(verdict) for verdict in answer.verdicts],
        "lifts": [asdict(lift) for lift in answer.lifts],
        "holm": dict(answer.holm),
        "exploratory": answer.exploratory,
        "costs": [asdict(cost) for cost in costs],
        "safety": safety,
        "methods": METHODS,
    }
    lines = [*(verdict.sentence for verdict in answer.verdicts), *(_line(lift) for lift in answer.lifts)]
    lines += [_cost(cost) for cost in costs]
    for name, found in safety.items():
        excess = f", by {found['mean_overspend']:,.0f} tokens on average" if found["violations"] else ""
        lines.append(
            f"{name}: {found['violations']} of {found['episodes']} episodes over budget{excess} (at most "
            f"{100 * found['upper']:.2f} % of all, one-sided 95 % Clopper-Pearson)"
        )
    return value, lines


def _line(lift: Lift) -> str:
    from ..analysis import points

    low, high = points(lift.interval.low), points(lift.interval.high)
    return (
        f"{lift.arm} against {lift.against}: {points(lift.estimate)} (95 % {low} to {high}, {lift.interval.method}); "
        f"{lift.wins} wins, {lift.losses} losses of {lift.tasks} tasks, McNemar mid-p {lift.p_mid:.3f}"
    )


def _cost(cost: Any) -> str:
    span = "no interval" if cost.interval is None else f"95 % {cost.interval.low:+,.0f} to {cost.interval.high:+,.0f}"
    return (
        f"{cost.arm} against {cost.against}, {cost.quantity}: {cost.estimate:+,.0f} {cost.unit} per task ({span}); "
        f"p {cost.p:.3f}, Holm {cost.p_holm:.3f} ({cost.method})"
    )
