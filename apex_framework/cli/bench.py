"""``apex bench``: measure one part beside its peers in the same run. Rows are data; the verdict is the reader's."""

from __future__ import annotations

import importlib

import click

from ..benches import names
from ..errors import UnknownNameError
from .context import Context

COLUMNS = ("case", "contender", "metric", "value", "unit")


@click.command()
@click.argument("name", required=False)
@click.option("-n", type=click.IntRange(min=1), help="Messages, calls or repetitions, where a bench counts them.")
@click.option("--switches", type=click.IntRange(min=1), help="Switches of bench simulate (100,000).")
@click.option("--seed", type=int, default=0, show_default=True, help="First seed of bench simulate.")
@click.pass_obj
def bench(context: Context, name: str | None, n: int | None, switches: int | None, seed: int) -> None:
    """Measure NAME; without it, list the benches.

    With --json there is one line per contender and metric: bench, case, contender, metric, value, unit.
    """
    if name is None:
        context.emit(names(), "\n".join(names()))
        return
    if name not in names():
        raise UnknownNameError("bench", name, names())
    arguments = type("Arguments", (), {"n": n, "switches": switches, "seed": seed})
    for row in importlib.import_module(f"..benches.{name}", __package__).run(arguments):
        context.emit(row, "  ".join(_cell(row[column], column) for column in COLUMNS).rstrip())


def _cell(value: object, column: str) -> str:
    if column == "value":
        return f"{value:>12,}" if isinstance(value, (int, float)) else f"{value:>12}"
    return f"{value!s:{24 if column in ('case', 'metric') else 14}}"
