"""Finished episodes of which a disk or somebody took lines: their own line counts what there was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .layout import EPISODES, OWN_FILES, episode_folder
from .lines import iterate_rows, key_of
from .plan import Key

_COUNTED = {
    "decisions.jsonl": ("decision_ms",),
    "switches.jsonl": ("switches", "aborted"),
    "calls.jsonl": ("calls", "denied"),
    "events.jsonl": ("test_runs",),
}
"""Side file -> columns of an episode's line that together are its rows there; of events, those of tests that ran."""


def shortfalls(run: Path) -> dict[Key, str]:
    """Episode -> which of its lines or files are missing. Raises ArtifactError.

    What no column counts (other events, latencies, operations, metrics) cannot be missed.
    """
    there: dict[str, Counter[Key]] = {name: Counter() for name in _COUNTED}
    for name, found in there.items():
        for _, row in iterate_rows(run / name):
            if name != "events.jsonl" or (row.get("tool"), row.get("ok")) == ("test.run", True):
                found[key_of(row, f"{run / name}: a line")] += 1
    short: dict[Key, str] = {}
    for _, record in iterate_rows(run / EPISODES):
        key = key_of(record)
        for what in _missing(run, key, record, {name: found[key] for name, found in there.items()}):
            short.setdefault(key, what)
    return short


def _missing(run: Path, key: Key, record: Mapping[str, Any], there: Mapping[str, int]) -> Iterator[str]:
    for name, columns in _COUNTED.items():
        counted = sum(_number(record.get(column)) for column in columns)
        if there[name] < counted:
            yield f"{name} has {there[name]} of its {counted} lines"
    home = episode_folder(run, key)
    yield from (f"{home.relative_to(run) / name} is missing" for name in OWN_FILES if not (home / name).is_file())
    trace = home / OWN_FILES[0]
    if _number(record.get("steps")) and trace.is_file() and not trace.stat().st_size:
        yield f"{trace.relative_to(run)} is empty"


def _number(value: object) -> int:
    return len(value) if isinstance(value, list) else value if isinstance(value, int) else 0
