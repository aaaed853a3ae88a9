"""``python -m apex_framework.scripts.compute_lift --a A.jsonl --b B.jsonl --paired --out LIFT.json``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import click

from ..cli.context import Context
from ..cli.whole import write_whole
from ..errors import NotComparableError


@click.command()
@click.option("--a", "ours", required=True, type=click.Path(path_type=Path), help="Episodes of one arm.")
@click.option("--b", "theirs", required=True, type=click.Path(path_type=Path), help="Episodes of the arm to beat.")
@click.option("--paired/--no-paired", default=True, help="Pair by (task, seed); the only way offered.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Where the lift is written, as JSON.")
@click.option("--seed", default=0, show_default=True, help="Seed of the resampling.")
@click.pass_obj
def main(context: Context, /, ours: Path, theirs: Path, paired: bool, out: Path, seed: int) -> None:
    """Success of A minus success of B, paired by (task, seed), with interval and tests."""
    from ..analysis import lift_between, points, read_episodes

    if not paired:
        raise NotComparableError("only paired comparisons are honest here", "run both arms on the same tasks")
    a, b = read_episodes(ours), read_episodes(theirs)
    for path, rows in ((ours, a), (theirs, b)):
        if len({row.arm for row in rows}) != 1:
            raise NotComparableError(f"{path} must hold episodes of exactly one arm", "split it by the column 'arm'")
    name, against = a[0].arm, b[0].arm
    if name == against:
        name, against = f"{name} (a)", f"{against} (b)"
    both = [*(replace(row, arm=name) for row in a), *(replace(row, arm=against) for row in b)]
    lift = lift_between(both, name, against, seed=seed)
    write_whole(out, json.dumps(asdict(lift), indent=2) + "\n", make_folder=True)
    context.emit(
        asdict(lift),
        f"{name} against {against}: {points(lift.estimate)}, 95 % interval "
        f"{points(lift.interval.low)} to {points(lift.interval.high)} ({lift.interval.method})",
    )


if __name__ == "__main__":
    from ..cli.boundary import run

    sys.exit(run(sys.argv[1:], main, "compute_lift"))
