"""``apex slo``: did a run keep what was promised? Every number is made again from its lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ArtifactError
from .checked import check_finished
from .context import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..analysis.slo import Line

MISSED = 5
"""Exit status when a target is missed."""


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--targets", type=click.Path(path_type=Path), help="A file of other limits: NAME = NUMBER.")
@click.option("--stress", type=click.Path(path_type=Path), help="Rows of bench stress; by default RUN/stress.jsonl.")
@click.option("--strict", is_flag=True, help="A target without data is missed, too.")
@click.pass_obj
def slo(context: Context, run: Path, targets: Path | None, stress: Path | None, strict: bool) -> int:
    """Compare a run with its targets; exit status 5 when one is missed.

    A finished run whose files are not those of its manifest is refused; one that is not finished is judged by what is
    there, and said to be so. Metrics that the run tells of itself are made again from its lines; a number that they do not bear out is an error.
    A target that nothing was measured for, or too little for it to be reached at all, is named, and is no pass.
    """
    from ..analysis.recompute import differences
    from ..analysis.slo import FAIL, NO_DATA, PASS, TARGETS, TOO_FEW, evaluate, read_targets
    from ..benches.profiles import read
    from ..config import read_table
    from ..experiment.layout import METRICS

    chosen = read_targets(read_table(targets)) if targets is not None else TARGETS
    check_finished(context, run)
    lines = evaluate(run, chosen, stress=stress, stamp=read("S").stamp)
    if (run / METRICS).exists():
        for difference in differences(run):
            raise ArtifactError(f"{run}/{difference}", "the folder was changed after the run, or damaged: run again")
    unknown = [line.target.name for line in lines if line.result in (NO_DATA, TOO_FEW)]
    missed = [line.target.name for line in lines if line.result == FAIL] + (unknown if strict else [])
    value = {
        "run": str(run),
        "passed": not missed,
        "missed": missed,
        "unknown": unknown,
        "targets": [
            {
                "name": line.target.name,
                "limit": line.target.limit,
                "measured": line.measured and line.measured.value,
                "n": line.measured.n if line.measured else 0,
                "result": line.result,
                "note": line.measured.note if line.measured else "",
            }
            for line in lines
        ],
    }
    passed = sum(line.result == PASS for line in lines)
    words = [f"{passed} of {len(lines)} targets reached"]
    words += [f"missed: {', '.join(missed)}"] if missed else []
    words += [f"not known: {', '.join(unknown)}"] if unknown and not strict else []
    context.emit(value, f"{_table(lines)}\n\n{'; '.join(words)}")
    return MISSED if missed else 0


def _table(lines: Sequence[Line]) -> str:
    rows = [("target", "limit", "measured", "n", "result", "")]
    for line in lines:
        measured, n, note = "-", "0", ""
        if line.measured is not None:
            measured, n, note = f"{line.measured.value:.4g}", str(line.measured.n), line.measured.note
        rows.append((line.target.name, line.target.text, measured, n, line.result, note))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return "\n".join(
        "  ".join(
            [
                cell.rjust(width) if 1 <= i <= 3 else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=False))
            ]
            + [row[5]]
        ).rstrip()
        for row in rows
    )
