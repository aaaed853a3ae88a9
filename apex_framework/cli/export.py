"""``apex export``: the lines of finished runs as tables for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from .checked import check_finished
from .context import Context


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(("parquet",)),
    default="parquet",
    show_default=True,
    help="Form of the tables.",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the tables, one file each.",
)
@click.pass_obj
def export(context: Context, /, runs: tuple[Path, ...], form: str, out: Path) -> None:
    """Episodes, decisions, switches, calls and predictions of RUN... as Parquet files, with a column `run`.

    Columns that hold tables or lists (scores, features) are JSON text. Needs the extra [analysis].
    """
    from ..experiment.tables import write_tables

    for run in runs:
        check_finished(context, run)
    rows = write_tables(runs, out)
    lines = [f"{out / name}.{form}  {count:,} rows" for name, count in rows.items()]
    context.emit({"out": str(out), "format": form, "rows": rows}, "\n".join(lines))
