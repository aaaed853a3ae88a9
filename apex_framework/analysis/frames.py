"""Data frames of records, for notebooks; the only place that wants pandas, which the extra [analysis] brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

from ..errors import MissingExtraError
from .episodes import EpisodeRow


def episodes_frame(rows: Sequence[EpisodeRow]) -> Any:
    """A pandas DataFrame with one line per episode, columns as in EpisodeRow. Raises MissingExtraError."""
    return _frame([_flat(row) for row in rows], list(EpisodeRow.__dataclass_fields__))


def records_frame(records: Sequence[Any]) -> Any:
    """A pandas DataFrame with one line per record of this package: a Lift, a Shift, a Verdict, a Look, ...

    A record inside a record becomes columns such as ``interval_low``; tuples of records (the points of a curve, the
    looks of a sequential test) stay as they are: make a frame of them. Raises MissingExtraError, and TypeError for what
    is no record.
    """
    return _frame([_flat(record) for record in records], None)


def _frame(lines: Sequence[Mapping[str, Any]], columns: list[str] | None) -> Any:
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise MissingExtraError("a data frame", "analysis", "pandas") from error
    return pandas.DataFrame(lines, columns=columns)


def _flat(record: Any, prefix: str = "") -> dict[str, Any]:
    if not is_dataclass(record):
        raise TypeError(f"no record: {type(record).__name__}")
    line: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            line |= _flat(value, f"{prefix}{field.name}_")
        else:
            line[prefix + field.name] = value
    return line
