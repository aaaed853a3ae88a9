"""What a finished run folder holds besides its lines: predictions in the SWE-bench form, and metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .lines import iterate_rows, to_line

if TYPE_CHECKING:
    from .artifacts import RunFolder


def write_predictions(folder: RunFolder) -> None:
    """``predictions/<arm>.jsonl`` for the first seed, ``<arm>@<seed>.jsonl`` for the others: one line per task."""
    from .artifacts import file_name

    for arm in folder.plan.arms:
        for number, seed in enumerate(folder.plan.seeds):
            rows = []
            for task in folder.plan.tasks:
                key = (arm.name, task.id, seed)
                patch = folder.episode_path(key) / "patch.diff"
                text = patch.read_text(encoding="utf-8") if patch.exists() else ""
                rows.append({"instance_id": task.id, "model_name_or_path": f"apex/{arm.name}", "model_patch": text})
            name = file_name(arm.name) + (f"@{seed}" if number else "")
            folder.replace(f"predictions/{name}.jsonl", b"".join(to_line(row) for row in rows))


def write_metrics(folder: RunFolder) -> None:
    """``metrics/summary.json``: per arm counters, and histograms of decisions, switch phases and calls."""
    from ..analysis.recompute import SUMMARY, summarize

    names = [arm.name for arm in folder.plan.arms]
    sides = {name: _rows(folder, name) for name in ("decisions.jsonl", "switches.jsonl", "calls.jsonl")}
    summary = summarize(names, folder.lines(), sides)
    folder.replace(SUMMARY, json.dumps(summary, indent=1).encode() + b"\n")


def _rows(folder: RunFolder, name: str) -> Iterator[dict[str, Any]]:
    return (row for _, row in iterate_rows(folder.path / name))
