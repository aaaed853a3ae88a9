"""What a finished run folder holds besides its lines: predictions in the SWE-bench form, and metrics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..telemetry.histogram import TOKENS, Histogram
from .lines import read_rows, to_line

if TYPE_CHECKING:
    from .artifacts import RunFolder

_COUNTED = ("success", "overfit", "tokens", "steps", "switches", "aborted", "denied", "calls")


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
    arms: dict[str, dict[str, Any]] = {}
    for arm in folder.plan.arms:
        records = [record for (name, _, _), record in folder.records.items() if name == arm.name]
        counters: dict[str, int] = {"episodes": len(records)}
        counters["infrastructure"] = sum(record.get("status") == "infrastructure" for record in records)
        counters |= {name: sum(int(record.get(name, 0)) for record in records) for name in _COUNTED}
        arms[arm.name] = {"counters": counters, "histograms": {}}
    _fill(arms, folder)
    folder.replace("metrics/summary.json", json.dumps(arms, indent=1).encode() + b"\n")


def _fill(arms: dict[str, dict[str, Any]], folder: RunFolder) -> None:
    found: dict[tuple[str, str], Histogram] = {}

    def take(arm: str, name: str, value: object, histogram: Histogram) -> None:
        if isinstance(value, int | float):
            found.setdefault((arm, name), histogram).add(float(value))

    for row in read_rows(folder.path / "decisions.jsonl"):
        take(row["arm"], "decision_latency_ms", row.get("latency_ms"), Histogram())
    for row in read_rows(folder.path / "switches.jsonl"):
        for phase, value in (row.get("phase_ms") or {}).items():
            take(row["arm"], f"switch_{phase}_ms", value, Histogram())
    for row in read_rows(folder.path / "calls.jsonl"):
        take(row["arm"], "call_tokens_in", row.get("tokens_in"), Histogram(TOKENS))
        take(row["arm"], "call_tokens_out", row.get("tokens_out"), Histogram(TOKENS))
    for (arm, name), histogram in sorted(found.items()):
        arms[arm]["histograms"][name] = histogram.to_json()
