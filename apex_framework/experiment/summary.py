"""What a finished run folder holds besides its lines: predictions in the SWE-bench form, and metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .lines import iterate_rows

if TYPE_CHECKING:
    from .artifacts import RunFolder


def write_predictions(folder: RunFolder) -> None:
    """``predictions/<arm>.jsonl`` for the first seed, ``<arm>@<seed>.jsonl`` for the others: one line per task."""
    from .artifacts import file_name

    for arm in folder.plan.arms:
        for number, seed in enumerate(folder.plan.seeds):
            rows = []
            # The official harness keeps results by this name, and would take one seed's for another's.
            model = arm.name + (f"@{seed}" if number else "")
            for task in folder.plan.tasks:
                key = (arm.name, task.id, seed)
                patch = folder.episode_path(key) / "patch.diff"
                # Bytes are the patch's own: ends of lines, and letters that are no UTF-8.
                text = patch.read_bytes().decode("utf-8", "surrogateescape") if patch.exists() else ""
                rows.append({"instance_id": task.id, "model_name_or_path": f"apex/{model}", "model_patch": text})
            name = file_name(arm.name) + (f"@{seed}" if number else "")
            # ASCII: others open it in whatever encoding their locale has.
            folder.replace(f"predictions/{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())


def write_metrics(folder: RunFolder) -> None:
    """``metrics/summary.json``: per arm counters, and histograms of decisions, switch phases and calls."""
    from ..analysis.recompute import SUMMARY, summarize

    names = [arm.name for arm in folder.plan.arms]
    sides = {name: _rows(folder, name) for name in ("decisions.jsonl", "switches.jsonl", "calls.jsonl")}
    summary = summarize(names, folder.lines(), sides)
    folder.replace(SUMMARY, json.dumps(summary, indent=1).encode() + b"\n")


def _rows(folder: RunFolder, name: str) -> Iterator[dict[str, Any]]:
    return (row for _, row in iterate_rows(folder.path / name))
