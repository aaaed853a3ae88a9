"""``apex compare``: paired lifts of finished runs, after checking that they can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from .checked import check_finished
from .context import Context
from .early import emit_looked
from .numbers import counts_of

if TYPE_CHECKING:
    from ..analysis import Answer, Lift, RunData, Shift

METHODS = {
    "estimate": "mean over tasks of the difference in success, seeds averaged inside a task",
    "interval": "95 %, its method beside it; each end is a one-sided 97.5 % bound",
    "p_exact": "McNemar, exact, two-sided, tasks independent",
    "p_mid": "McNemar, mid-p, two-sided",
    "p_cluster": "sign flips of whole clusters, two-sided",
    "detectable": "lift found with 80 % power: McNemar mid-p at the observed discordance, where clusters hold several tasks "
    "or what their spread allows, the larger; several seeds of a task: what the spread of clusters' means allows",
    "holm": "Holm over p_cluster of all lifts but the headline's, p_exact where every cluster is one task",
    "verdicts": "intersection-union: BETTER needs every lower 97.5 % bound above 0",
    "costs": "Hodges-Lehmann shift per task; Wilcoxon, or sign flips of clusters; Holm over all of them",
    "safety": "one-sided 95 % Clopper-Pearson bound on violations; overspend averaged over the violations",
}
"""What the numbers of the JSON are."""
NO_COST = 0.005
"""Tokens or milliseconds under which an end of an interval is zero: bisection leaves it a trace beside it."""


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option("--arm", help="Compare this arm ...")
@click.option("--against", help="... with this one.")
@click.option("--best-static", metavar="ARM", help="The static topology that was best on dev.")
@click.option("--margin", type=float, metavar="PP", help="Is ARM worse by less than so many points? One-sided 5 %.")
@click.option("--looks", metavar="N,N,…", help="Evidence at so many tasks of the plan, valid however often one looks.")
@click.option(
    "--unit", type=click.Choice(("task", "cluster")), default="cluster", show_default=True, help="What --looks bets on."
)
@click.option("--curve", is_flag=True, help="Success over the budgets of the runs, with bands.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the resampling.")
@click.pass_obj
def compare(
    context: Context,
    runs: tuple[Path, ...],
    arm: str | None,
    against: str | None,
    best_static: str | None,
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
    if curve and (arm is not None or best_static is not None):
        raise UsageError("--curve shows all arms", "leave out --arm, --against and --best-static")
    if arm is not None and best_static is not None:
        raise UsageError("--best-static belongs to the verdict, which one pair has not", "leave out one of the two")
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
    value, lines = _all(_answer(merged, best_static or "", seed), seed)
    emit_looked(context, value, lines, merged.early_look)


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
    untold = _untold(costs, [(arm, against)])
    value: dict[str, Any] = {
        **asdict(lift),
        "costs": [*map(asdict, costs), *untold],
        "methods": METHODS,
    }
    lines = [_line(lift), *map(_cost, costs), *_untold_lines(untold)]
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
        if unit == "task" and lift.clusters < lift.tasks:
            context.say(
                f"warning: the {lift.tasks} tasks are in {lift.clusters} clusters; where tasks of a cluster are alike, --unit task"
                f" calls luck better with a chance above {test.alpha:g}"
            )
        if test.not_reached:
            lines.append(f"not reached: {', '.join(map(str, test.not_reached))}; {reached} tasks of the plan were run")
    emit_looked(context, value, lines, merged.early_look)


def _curves(context: Context, runs: list[RunData], seed: int) -> None:
    from ..analysis import ArmRole, arm_role, oracle_success, rungs_of, success_curves

    rungs = rungs_of(runs)
    arms = list(dict.fromkeys(row.arm for rows in rungs.values() for row in rows))
    curves = success_curves(rungs, arms, seed=seed)
    settings = {name: setting for run in runs for name, setting in run.arms.items()}
    statics = [name for name in arms if arm_role(name, settings.get(name)) is ArmRole.STATIC]
    oracle = {budget: share for budget, rows in rungs.items() if (share := oracle_success(rows, statics)) is not None}
    lines = []
    for curve in curves:
        lines.append(f"{curve.arm} ({curve.tasks} tasks, {curve.clusters} clusters; {curve.method})")
        lines += [
            f"  {p.budget:>9,} tokens  {100 * p.success:5.1f} %  alone {100 * p.pointwise.low:.1f} to "
            f"{100 * p.pointwise.high:.1f} ({p.pointwise.method})  all rungs {100 * p.band.low:.1f} to "
            f"{100 * p.band.high:.1f}  over budget {p.violations}"
            for p in curve.points
        ]
    if oracle:
        lines.append("oracle static (the best topology of every episode, in hindsight: an upper bound, partly luck)")
        lines += [f"  {budget:>9,} tokens  {100 * share:5.1f} %" for budget, share in oracle.items()]
    early = next((run.early_look for run in runs if run.early_look), "")
    emit_looked(context, {"curves": [asdict(curve) for curve in curves], "oracle_static": oracle}, lines, early)


def _answer(merged: RunData, best_static: str, seed: int) -> Answer:
    """The answer, every arm on the same tasks and seeds. Raises NotComparableError, UnknownNameError."""
    from ..analysis import answer_of, pair

    arms = list(dict.fromkeys(row.arm for row in merged.rows))
    for other in arms[1:]:
        pair(merged.rows, arms[0], other)
    return answer_of(merged, best_static=best_static, seed=seed)


def _all(answer: Answer, seed: int) -> tuple[dict[str, Any], list[str]]:
    from ..analysis import cost_shifts, no_verdict

    pairs = [(lift.arm, lift.against) for lift in answer.lifts]
    costs = cost_shifts(answer.run.rows, pairs, seed=seed)
    untold = _untold(costs, pairs)
    safety = {arm.arm: asdict(arm.safety) for arm in answer.arms if arm.safety is not None}
    value = {
        "verdicts": [asdict(verdict) for verdict in answer.verdicts],
        "lifts": [asdict(lift) for lift in answer.lifts],
        "holm": dict(answer.holm),
        "exploratory": answer.exploratory,
        "costs": [*map(asdict, costs), *untold],
        "safety": safety,
        "methods": METHODS,
    }
    lines = [*(verdict.sentence for verdict in answer.verdicts), *(_line(lift) for lift in answer.lifts)]
    if not answer.verdicts:
        lines.insert(0, no_verdict(answer))
    lines += [*map(_cost, costs), *_untold_lines(untold)]
    for name, found in safety.items():
        excess = f", by {found['mean_overspend']:,.0f} tokens on average" if found["violations"] else ""
        lines.append(
            f"{name}: {found['violations']} of {found['episodes']} episodes over budget{excess} (at most "
            f"{100 * found['upper']:.2f} % of all, one-sided 95 % Clopper-Pearson)"
        )
    return value, lines


def _untold(costs: Sequence[Shift], pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Shifts that no episodes tell of, with null for every number."""
    from ..analysis.shift import QUANTITIES

    told = {(cost.arm, cost.against, cost.quantity) for cost in costs}
    numbers = dict.fromkeys(("estimate", "interval", "mean", "p", "p_holm"))
    return [
        {
            "arm": arm,
            "against": against,
            "quantity": quantity,
            "unit": unit,
            **numbers,
            "tasks": 0,
            "clusters": 0,
            "method": "not told",
        }
        for arm, against in pairs
        for quantity, unit in QUANTITIES.items()
        if (arm, against, quantity) not in told
    ]


def _untold_lines(untold: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line per quantity, however many pairs."""
    pairs: dict[str, list[str]] = {}
    for cost in untold:
        pairs.setdefault(cost["quantity"], []).append(f"{cost['arm']} against {cost['against']}")
    return [
        f"{found[0] if len(found) == 1 else f'{len(found)} of these pairs'}, {quantity}: not told"
        for quantity, found in pairs.items()
    ]


def _line(lift: Lift) -> str:
    from ..analysis import p_text, points

    low, high = points(lift.interval.low), points(lift.interval.high)
    tests = f"exact McNemar p {p_text(lift.p_exact)}"
    if lift.clusters < lift.tasks:
        tests += f" if tasks were independent, {lift.test} p {p_text(lift.p)}"
    return (
        f"{lift.arm} against {lift.against}: {points(lift.estimate)} (95 % {low} to {high}, {lift.interval.method}); "
        f"{lift.wins} wins, {lift.losses} losses of {lift.tasks} tasks, {tests}"
    )


def _cost(cost: Shift) -> str:
    from ..analysis import p_text

    span, tested = "no interval", ""
    if cost.interval is not None:
        low, high = (f"{round(end):+,}" for end in (cost.interval.low, cost.interval.high))
        span = f"95 % {low} to {high}"
        if max(abs(cost.interval.low), abs(cost.interval.high)) < NO_COST:
            # Ties hold the interval at nothing, and have no sign for the test: the two are not of the same tasks.
            span += f", for on most tasks both cost the same; mean {cost.mean:+,.1f}"
            tested = " of the tasks that differ"
    return (
        f"{cost.arm} against {cost.against}, {cost.quantity}: {round(cost.estimate):+,} {cost.unit} per task ({span}); "
        f"p{tested} {p_text(cost.p)}, Holm {p_text(cost.p_holm)} ({cost.method})"
    )
