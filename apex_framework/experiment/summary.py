"""What a finished run folder holds besides its lines: predictions in the SWE-bench form, and metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ArtifactError
from .layout import SUMMARY, file_name
from .lines import iterate_rows

if TYPE_CHECKING:
    from .artifacts import RunFolder


def write_predictions(folder: RunFolder) -> None:
    """``predictions/<arm>.jsonl`` for the first seed, ``<arm>@<seed>.jsonl`` for the others: one line per task.

    Raises ArtifactError for a patch that is gone: that the team changed nothing is an empty file.
    """
    for arm in folder.plan.arms:
        for number, seed in enumerate(folder.plan.seeds):
            rows = []
            # The official harness keeps results by this name, and would take one seed's for another's.
            model = arm.name + (f"@{seed}" if number else "")
            for task in folder.plan.tasks:
                text = _patch(folder.episode_path((arm.name, task.id, seed)) / "patch.diff")
                rows.append({"instance_id": task.id, "model_name_or_path": f"apex/{model}", "model_patch": text})
            name = file_name(arm.name) + (f"@{seed}" if number else "")
            # ASCII: others open it in whatever encoding their locale has.
            folder.replace(f"predictions/{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())


def _patch(path: Path) -> str:
    """Bytes are the patch's own: ends of lines, and letters that are no UTF-8."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError as error:
        raise ArtifactError(
            f"{path} is missing, and its episode is finished", "restore the file or start a new run"
        ) from error


def write_metrics(folder: RunFolder) -> None:
    """``metrics/summary.json``: per arm counters, and histograms of decisions, switch phases and calls."""
    from ..analysis.recompute import summarize

    names = [arm.name for arm in folder.plan.arms]
    sides = {name: _rows(folder, name) for name in ("decisions.jsonl", "switches.jsonl", "calls.jsonl")}
    summary = summarize(names, folder.lines(), sides)
    folder.replace(SUMMARY, json.dumps(summary, indent=1).encode() + b"\n")


def _rows(folder: RunFolder, name: str) -> Iterator[dict[str, Any]]:
    return (row for _, row in iterate_rows(folder.path / name))
