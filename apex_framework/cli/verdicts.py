"""Verdicts that others reached: lines of JSON, and reports of the official harness, as the rows of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final

from ..errors import UsageError
from .predictions import imported_verdicts, json_rows

_WORDS: Final = ("arm", "task", "instance_id", "cluster", "family")
_COUNTS: Final = ("seed", "tokens", "steps")
_KEYS: Final = (*_WORDS, *_COUNTS, "success", "resolved", "wall_ms", "error")
MAX_SEED: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ImportedVerdict:
    """What became of one attempt of one arm at one task."""

    where: str
    arm: str
    task: str
    success: bool
    seed: int = 0
    """Tells attempts of the same arm at the same task apart."""
    cluster: str = ""
    family: str = ""
    tokens: int | None = None
    """None where nobody told."""
    steps: int | None = None
    wall_ms: float | None = None
    error: str = ""
    """Why it could not be judged; then it is neither success nor failure."""


def read_verdicts(path: Path) -> tuple[ImportedVerdict, ...]:
    """JSON lines, or one JSON list. Raises UsageError that names file and line."""
    found = tuple(_verdict(where, row) for where, row in json_rows(path))
    if not found:
        raise UsageError(f"{path}: it holds no verdict", "is it the right file?")
    return found


def read_report(arm: str, path: Path) -> tuple[ImportedVerdict, ...]:
    """A report of the official harness, as verdicts of one arm. Raises UsageError."""
    told = imported_verdicts(path)
    if not told:
        raise UsageError(f"{path}: it lists no task", "is the report whole?")
    return tuple(
        ImportedVerdict(
            str(path), arm, task, verdict.success, cluster=_cluster_of(task), error=verdict.infrastructure_error
        )
        for task, verdict in sorted(told.items())
    )


def check_grid(verdicts: Sequence[ImportedVerdict]) -> tuple[list[str], dict[str, ImportedVerdict], list[int]]:
    """Arms, tasks with a verdict of each, and seeds, in the order of their first line.

    Raises UsageError for an attempt that is there twice, a task in two clusters or families, or one that some arm lacks.
    """
    seen: dict[tuple[str, str, int], str] = {}
    tasks: dict[str, ImportedVerdict] = {}
    for one in verdicts:
        key = (one.arm, one.task, one.seed)
        if key in seen:
            raise UsageError(
                f"{one.where}: a second verdict for arm {one.arm!r}, task {one.task!r}, seed {one.seed}, the first is at {seen[key]}",
                "give repeated attempts a seed each",
            )
        seen[key] = one.where
        first = tasks.setdefault(one.task, one)
        for what in ("cluster", "family"):
            if getattr(first, what) != getattr(one, what):
                raise UsageError(
                    f"{one.where}: task {one.task!r} has {what} {getattr(one, what)!r}, and {getattr(first, what)!r} at {first.where}",
                    f"a task has one {what}",
                )
    arms = list(dict.fromkeys(one.arm for one in verdicts))
    seeds = sorted({one.seed for one in verdicts})
    for arm in arms:
        for task in tasks:
            for seed in seeds:
                if (arm, task, seed) not in seen:
                    raise UsageError(
                        f"arm {arm!r} has no verdict for task {task!r}, seed {seed}",
                        'every arm needs the same tasks and seeds; {"error": "…"} stands for an attempt that could not be judged',
                    )
    return arms, tasks, seeds


def _cluster_of(task: str) -> str:
    """The repository of an official instance id; the task itself for another one."""
    head, dash, number = task.rpartition("-")
    owner, blanks, name = head.partition("__")
    return f"{owner}/{name}" if dash and number.isdigit() and blanks and owner and name else task


def _verdict(where: str, row: Any) -> ImportedVerdict:
    if not isinstance(row, dict):
        raise UsageError(f"{where}: {type(row).__name__} instead of an object", "one verdict per line")
    if strange := [key for key in row if key not in _KEYS]:
        raise UsageError(f"{where}: a verdict cannot say {strange[0]!r}", f"known: {', '.join(_KEYS)}")
    for key in (*_WORDS, "error"):
        if key in row and not (isinstance(row[key], str) and row[key].strip() and row[key].isprintable()):
            raise UsageError(f"{where}: {key} must be a text of printable characters, not {row[key]!r}")
    for key in _COUNTS:
        value = row.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SEED:
            raise UsageError(f"{where}: {key} must be a whole number of at least 0, not {value!r}")
    wall = row.get("wall_ms", 0)
    if isinstance(wall, bool) or not isinstance(wall, int | float) or not isfinite(wall) or wall < 0:
        raise UsageError(f"{where}: wall_ms must be a number of milliseconds, not {wall!r}")
    arm = row.get("arm")
    task = _one_of(where, row, "task", "instance_id")
    success = False if "error" in row else _one_of(where, row, "success", "resolved")
    if arm is None or not isinstance(success, bool):
        raise UsageError(f"{where}: arm as a text, and success as true or false, are needed", "see docs/suites.md")
    return ImportedVerdict(
        where,
        arm,
        task,
        success,
        row.get("seed", 0),
        row.get("cluster") or _cluster_of(task),
        row.get("family", ""),
        row.get("tokens"),
        row.get("steps"),
        None if "wall_ms" not in row else float(wall),
        row.get("error", ""),
    )


def _one_of(where: str, row: Mapping[str, Any], *names: str) -> Any:
    """The one of these keys that is there. Raises UsageError for none or several."""
    there = [name for name in names if name in row]
    if len(there) != 1:
        raise UsageError(f"{where}: one of {' and '.join(names)} is needed", "see docs/suites.md")
    return row[there[0]]
