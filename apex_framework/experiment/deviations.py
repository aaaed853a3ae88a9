"""What was done otherwise than planned, as an experiment's folder and its runs have it on file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import ArtifactError
from .artifacts import read_run
from .code import GONE_ON
from .folder import DEVIATIONS
from .lines import read_rows


def read_deviations(out: Path) -> list[dict[str, Any]]:
    """What was written down in an experiment's folder. Raises ArtifactError."""
    return read_rows(out / DEVIATIONS)


def deviations_of(folder: Path) -> list[dict[str, Any]]:
    """What a run folder says of itself: with which other code it was gone on with. Raises ArtifactError."""
    rows = read_run(folder).get(GONE_ON) or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "what" in row for row in rows):
        raise ArtifactError(f"{folder / 'run.json'}: {GONE_ON} is no list of deviations", "restore the file")
    return [{"when": row.get("when"), "what": f"{folder.name}: {row['what']}", "why": ""} for row in rows]
