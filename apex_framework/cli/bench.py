"""``apex bench``: measure one part beside its peers in the same run. Rows are data; the verdict is the reader's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, TextIO

import click

from .. import benches
from ..errors import RunFolderError, UnknownNameError, UsageError
from .context import Context

COLUMNS = ("case", "contender", "metric", "value", "unit")
MANY = click.IntRange(min=1)
LEAST_SECONDS = 0.1


def seconds_of(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    """A time under load as it was given. Raises BadParameter unless it is finite and at least LEAST_SECONDS."""
    if value is not None and not (isfinite(value) and value >= LEAST_SECONDS):
        raise click.BadParameter(f"{value:g} is not a finite number of at least {LEAST_SECONDS:g}.")
    return value


def name_of(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """A profile's name as it was given. Raises BadParameter for an empty one."""
    if value is not None and not value.strip():
        raise click.BadParameter("an empty name. Give N (normal) or S (stress).")
    return value


@click.command()
@click.argument("name", required=False)
@click.option(
    "-n",
    type=MANY,
    help="Messages, calls, draws or repetitions, where a bench counts them; processes of bench simulate.",
)
@click.option("--seed", type=click.IntRange(min=0), help="First seed, where a bench is seeded (0).")
@click.option("--seeds", type=MANY, help="Seeds, where a bench runs over many.")
@click.option("--steps", type=MANY, help="Callbacks under faults per seed of bench simulate (200).")
@click.option(
    "--seconds", type=float, callback=seconds_of, help="Time under load, 0.1 or more, in the bench's own time."
)
@click.option("--profile", callback=name_of, help="The load: N (normal) or S (stress).")
@click.option(
    "--profile-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Profiles of another file than the frozen one; its SHA-256 stands in every row.",
)
@click.option("--pooling", help="With a pool of connections, without, or both: on, off, on,off.")
@click.option("--backend", metavar="NAME[:MODEL]", help="Backend to measure, for all or per role: coder=x,*=repair.")
@click.option("--concurrent", type=MANY, help="Callers at once of bench tokens (5).")
@click.option("--of", type=click.Choice(("runtime", "service", "experiments")), help="Whose promises (runtime).")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Also write the rows as JSONL, in DIR.")
@click.option("--pin", is_flag=True, help="Stay on one processor; the rows say whether that was allowed.")
@click.pass_obj
def bench(context: Context, /, name: str | None, out: Path | None, pin: bool, **given: Any) -> None:
    """Measure NAME; without it, list the benches.

    With --json there is one line per contender and metric: bench, case, contender, metric, value, unit. An option that
    a bench does not read is refused. `apex bench promises` prints what the runtime promises, and whether it is kept;
    with --of service, what the model service and the budget promise, with --of experiments what experiments do.
    """
    chosen = {option: value for option, value in given.items() if value is not None}
    if name is None:
        if chosen or out or pin:
            raise UsageError("options are for a bench, and none is named", "apex bench NAME ...")
        context.emit(benches.names(), "\n".join(benches.names()))
        return
    name = name.replace("-", "_")
    if name not in benches.names():
        raise UnknownNameError("bench", name, benches.names())
    readable = benches.options(name)
    if strange := sorted(chosen.keys() - readable):
        known = ", ".join(_flag(option) for option in sorted({*readable & given.keys()})) or "none of its own"
        raise UsageError(f"bench {name} has no option {_flag(strange[0])}", f"it reads: {known}; --out, --pin")
    with pinned(pin) as extra, Artifact(out, benches.artifact(name)) as artifact:
        for row in measure(context, name, SimpleNamespace(**given, out=out, say=context.say), extra):
            artifact.write(row)


def measure(
    context: Context, name: str, args: Any, extra: Mapping[str, object] | None = None
) -> Iterator[dict[str, object]]:
    """Run a bench and show its rows as they come, each with what is in ``extra``."""
    module = benches.module(name)
    text = getattr(module, "text", _line)
    for row in module.run(args):
        row = {**row, **(extra or {})}
        context.emit(row, text(row))
        yield row


class Artifact:
    """Rows as JSONL in a folder, each whole as it comes; does nothing without a folder."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self._path = folder / name if folder else None
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        """Begin the file anew. Raises RunFolderError."""
        if self._path is not None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("w", encoding="utf-8")
            except OSError as error:
                raise self._refused(error) from error
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """A file that something went wrong before is taken away again."""
        if self._file is not None and self._path is not None:
            self._file.close()
            if error is not None and self._path.stat().st_size == 0:
                self._path.unlink()

    def write(self, row: Mapping[str, object]) -> None:
        """Add a row. Raises RunFolderError."""
        if self._file is not None:
            try:
                self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
                self._file.flush()
            except OSError as error:
                raise self._refused(error) from error

    def _refused(self, error: OSError) -> RunFolderError:
        return RunFolderError(f"cannot write {self._path}: {error.strerror}", "choose another --out")


@contextmanager
def pinned(wanted: bool) -> Iterator[dict[str, str]]:
    """Stay on one processor meanwhile, where that is wanted and allowed; yields what the rows say about it."""
    if not wanted:
        yield {}
        return
    from ..benches.load import pin

    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    said = pin()
    try:
        yield {"cpu": said}
    finally:
        if before is not None and said.startswith("pinned"):
            os.sched_setaffinity(0, before)


def _flag(option: str) -> str:
    return f"-{option}" if len(option) == 1 else f"--{option.replace('_', '-')}"


def _line(row: dict[str, object]) -> str:
    return "  ".join(_cell(row[column], column) for column in COLUMNS).rstrip()


def _cell(value: object, column: str) -> str:
    if column == "value":
        return f"{value:>12,}" if isinstance(value, (int, float)) else f"{value:>12}"
    return f"{value!s:{24 if column in ('case', 'metric') else 14}}"
