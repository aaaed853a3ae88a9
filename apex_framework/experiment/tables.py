"""Lines of run folders as Parquet tables. The library that writes them is of the extra [analysis]."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..analysis import merge_runs, read_run
from ..errors import ArtifactError, MissingExtraError, RunFolderError
from ..ports import SystemFiles
from .lines import read_rows

TABLES = ("episodes", "decisions", "switches", "calls")
PREDICTIONS = "predictions"


def write_tables(runs: Sequence[Path], out: Path) -> dict[str, int]:
    """Write one Parquet file per table; returns rows by table.

    Nothing is written when a run cannot be read or the runs cannot be put together. Raises MissingExtraError, ArtifactError,
    NotComparableError, RunFolderError.
    """
    arrow, parquet = _load("pyarrow"), _load("pyarrow.parquet")
    merge_runs([read_run(run) for run in runs])
    made = {}
    for name in (*TABLES, PREDICTIONS):
        rows = [row for run in runs for row in (_predictions(run) if name == PREDICTIONS else _rows(run, name))]
        try:
            made[name] = len(rows), arrow.Table.from_pylist(_columns(rows))
        except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
            raise ArtifactError(
                f"{name}: the runs' columns do not fit together: {error}", "export them one by one"
            ) from error
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, (_, table) in made.items():
            sink = arrow.BufferOutputStream()
            parquet.write_table(table, sink, compression="zstd")
            SystemFiles().replace(out / f"{name}.parquet", sink.getvalue().to_pybytes())
    except OSError as error:
        raise RunFolderError(f"cannot write to {out}: {error.strerror}", "choose another --out") from error
    return {name: count for name, (count, _) in made.items()}


def _load(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError("a Parquet table", "analysis", "pyarrow") from error


def _rows(run: Path, name: str) -> list[dict[str, Any]]:
    return [{"run": run.name, **row} for row in read_rows(run / f"{name}.jsonl")]


def _predictions(run: Path) -> list[dict[str, Any]]:
    paths = sorted((run / PREDICTIONS).glob("*.jsonl"))
    return [{"run": run.name, "file": path.name, **row} for path in paths for row in read_rows(path)]


def _columns(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same columns in every row, nested values as JSON text, whole numbers as floats where a column has both."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    mixed = {n for n in names if {int, float} <= {type(row.get(n)) for row in rows}}
    return [{n: _cell(row.get(n), n in mixed) for n in names} for row in rows]


def _cell(value: Any, as_float: bool) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return float(value) if as_float and isinstance(value, int) else value
