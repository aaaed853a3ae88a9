"""``apex compare``: paired lifts of finished runs, after checking that they can be compared."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from .context import Context

if TYPE_CHECKING:
    from ..analysis import Answer, Lift


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option("--arm", help="Compare this arm ...")
@click.option("--against", help="... with this one.")
@click.option("--best-static", default="", metavar="ARM", help="The static topology that was best on dev.")
@click.option("--seed", default=0, show_default=True, help="Seed of the resampling.")
@click.pass_obj
def compare(
    context: Context, runs: tuple[Path, ...], arm: str | None, against: str | None, best_static: str, seed: int
) -> None:
    """Compare arms by (task, seed) within and across run folders.

    Refuses runs whose suite digests differ and episodes without a partner. With --arm and --against one lift is
    shown, else all lifts and the verdict.
    """
    from ..analysis import lift_between, merge_runs, read_run

    if (arm is None) != (against is None):
        raise UsageError("--arm and --against go together", "name both, or neither for all lifts")
    if arm is not None and against is not None:
        lift = lift_between(merge_runs([read_run(run) for run in runs]).rows, arm, against, seed=seed)
        context.emit(asdict(lift), _line(lift))
        return
    answer = _answer(runs, best_static, seed)
    value = {
        "verdicts": [asdict(verdict) for verdict in answer.verdicts],
        "lifts": [asdict(lift) for lift in answer.lifts],
        "holm": dict(answer.holm),
        "exploratory": answer.exploratory,
    }
    lines = [*(verdict.sentence for verdict in answer.verdicts), *(_line(lift) for lift in answer.lifts)]
    context.emit(value, "\n".join(lines) or "nothing to compare: the runs have no controller beside baselines")


def _answer(runs: tuple[Path, ...], best_static: str, seed: int) -> Answer:
    """The answer, every pair of arms complete. Raises NotComparableError."""
    from ..analysis import answer_of, merge_runs, pair, read_run

    merged = merge_runs([read_run(run) for run in runs])
    answer = answer_of(merged, best_static=best_static, seed=seed)
    for lift in answer.lifts:
        pair(merged.rows, lift.arm, lift.against)
    return answer


def _line(lift: Lift) -> str:
    from ..analysis import points

    low, high = points(lift.interval.low), points(lift.interval.high)
    return (
        f"{lift.arm} against {lift.against}: {points(lift.estimate)} (95 % {low} to {high}, {lift.interval.method}); "
        f"{lift.wins} wins, {lift.losses} losses of {lift.tasks} tasks, McNemar mid-p {lift.p_mid:.3f}"
    )
