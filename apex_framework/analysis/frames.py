"""Data frames of records, for notebooks; the only place that wants pandas, which the extra [analysis] brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any

from ..errors import MissingExtraError
from .episodes import EpisodeRow


def episodes_frame(rows: Sequence[EpisodeRow]) -> Any:
    """A pandas DataFrame with one line per episode, columns as in EpisodeRow. Raises MissingExtraError."""
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise MissingExtraError("a data frame", "analysis", "pandas") from error
    columns = list(EpisodeRow.__dataclass_fields__)
    return pandas.DataFrame([asdict(row) for row in rows], columns=columns)
