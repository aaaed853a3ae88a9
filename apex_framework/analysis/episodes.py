"""Rows of episodes.jsonl and the facts of run.json, as records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from ..errors import ArtifactError, NotComparableError
from ..experiment.plan import looks_once

INFRASTRUCTURE = "infrastructure"
"""Status of an episode that could not be run: neither success nor failure of its arm."""


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One finished episode."""

    arm: str
    task_id: str
    seed: int
    success: bool
    tokens: int | None
    """None, as for steps and wall time, where nobody told: verdicts of others."""
    steps: int | None
    switches: int
    denied: int
    status: str
    cluster: str = ""
    """Unit of independence; the task itself when the artifact names none."""
    family: str = ""
    overfit: bool = False
    visible_passed: bool = False
    aborted: int = 0
    message_tokens: int = 0
    suite_digest: str = ""
    wall_ms: float | None = field(default=None, compare=False)
    """The machine's time; None when the artifact names none. The same episode takes another time elsewhere."""

    @property
    def judged(self) -> bool:
        """Whether it counts as a success or a failure."""
        return self.status != INFRASTRUCTURE

    def watched(self, budget: int) -> bool:
        """Whether it counts for the safety of a budget: judged, or over it; that nobody could grade it hides no overspending."""
        return self.judged or (self.tokens is not None and self.tokens > budget)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> EpisodeRow:
        """From one line. Raises ArtifactError when a needed column is missing or is no such value."""
        try:
            if not isinstance(row["success"], bool) and row["success"] not in (0, 1):
                raise ValueError(f"success {row['success']!r}")
            wall = row.get("wall_ms")
            if wall is not None and not 0.0 <= float(wall) < inf:
                raise ValueError(f"wall_ms {wall!r}")
            return cls(
                arm=str(row["arm"]),
                task_id=str(row["task_id"]),
                seed=int(row["seed"]),
                success=bool(row["success"]),
                tokens=None if row["tokens"] is None else int(row["tokens"]),
                steps=None if row["steps"] is None else int(row["steps"]),
                switches=int(row["switches"]),
                denied=int(row["denied"]),
                status=str(row["status"]),
                cluster=str(row.get("cluster") or row["task_id"]),
                family=str(row.get("family") or ""),
                overfit=bool(row.get("overfit", False)),
                visible_passed=bool(row.get("visible_passed", False)),
                aborted=int(row.get("aborted", 0)),
                message_tokens=int(row.get("message_tokens", 0)),
                suite_digest=str(row.get("suite_digest") or ""),
                wall_ms=None if wall is None else float(wall),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ArtifactError(
                f"an episode's line lacks or garbles {error}", "use the file that apex run wrote"
            ) from error


@dataclass(frozen=True, slots=True)
class RunData:
    """A run folder as far as statistics need it."""

    path: Path
    rows: tuple[EpisodeRow, ...]
    suite: str = ""
    split: str = ""
    suite_digest: str = ""
    level: str = ""
    """Rung of the claim ladder, L0 to L4."""
    command: str = ""
    planned: int = 0
    """Episodes in the plan."""
    arms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Arm name -> its setting, in the plan's order."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)
    """Arm -> digest of the trained policy that it used, or ``untrained``."""
    tasks: Mapping[str, str] = field(default_factory=dict)
    """Task -> cluster, in the plan's order."""
    early_look: str = ""
    """Where a registered plan says to look once, at the end, and this is before it: a sentence that says so."""
    caveats: tuple[str, ...] = ()
    """What the suite says that results on its tasks do not show."""


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All of ``iterate_lines``. Raises ArtifactError when the file is missing or damaged."""
    return list(iterate_lines(path))


def iterate_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a JSONL file, one after the other; a last line without a newline, torn by an interruption, is left out.

    Raises ArtifactError when the file is missing or damaged.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield _object(path, number, line)
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}", "name a file that apex run wrote") from error


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}, line {number}: not JSON", "restore the file or run again") from error
    if not isinstance(row, dict):
        raise ArtifactError(f"{path}, line {number}: not an object", "restore the file or run again")
    return row


def read_episodes(path: Path) -> tuple[EpisodeRow, ...]:
    """Rows of an episodes file, or of a run folder's. Raises ArtifactError, also when an episode is there twice."""
    file = path / "episodes.jsonl" if path.is_dir() else path
    rows = tuple(EpisodeRow.of(row) for row in read_lines(file))
    keys = [(row.arm, row.task_id, row.seed) for row in rows]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ArtifactError(f"{file}: episode {twice} is there twice", "restore the file or run again")
    return rows


def read_run(path: Path) -> RunData:
    """A run folder. Raises ArtifactError."""
    try:
        data = json.loads((path / "run.json").read_bytes())
        plan = data["plan"]
        arms = {str(arm["name"]): arm for arm in plan["arms"]}
        planned = len(arms) * len(plan["tasks"]) * len(plan["seeds"])
        rows = read_episodes(path)
        return RunData(
            path=path,
            rows=rows,
            suite=str(plan["suite"]),
            split=str(plan["split"]),
            suite_digest=str(plan["suite_digest"]),
            level=str(plan.get("level", "")),
            command=str(data.get("command", "")),
            planned=planned,
            arms=arms,
            settings=plan.get("settings", {}),
            policies=plan.get("policies", {}),
            tasks={str(task[0]): str(task[1]) for task in plan["tasks"]},
            early_look=_early_look(path, plan.get("settings", {}), len(rows), planned),
            caveats=tuple(map(str, data.get("caveats", ()))),
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ArtifactError(f"{path} is no run folder: {error}", "name a folder that apex run made") from error


def merge_runs(runs: Sequence[RunData]) -> RunData:
    """Several runs over the same suite as one. Raises NotComparableError for mixed digests, splits or levels."""
    if not runs:
        raise NotComparableError("there is no run to compare", "name at least one run folder")
    first = runs[0]
    for other in runs[1:]:
        for what in ("suite", "suite_digest", "split", "level"):
            if getattr(other, what) != getattr(first, what):
                raise NotComparableError(
                    f"{other.path} has {what} {getattr(other, what)!r}, {first.path} has {getattr(first, what)!r}",
                    "compare runs of the same suite, made on the same Python version",
                )
        for name, arm in other.arms.items():
            if name in first.arms and first.arms[name] != arm:
                raise NotComparableError(f"the arm {name!r} has other settings in {other.path}", "name arms apart")
    seen: dict[tuple[str, str, int], EpisodeRow] = {}
    for row in _all_rows(runs):
        key = (row.arm, row.task_id, row.seed)
        if seen.setdefault(key, row) != row:
            raise NotComparableError(f"episode {key} differs between the runs", "compare runs with other arms or seeds")
    require_one_digest(seen.values())
    arms = {name: arm for run in runs for name, arm in run.arms.items()}
    return RunData(
        first.path,
        tuple(seen.values()),
        first.suite,
        first.split,
        first.suite_digest,
        first.level,
        "; ".join(dict.fromkeys(run.command for run in runs if run.command)),
        max(len(seen), sum(run.planned for run in runs) if len(runs) == 1 else len(seen)),
        arms,
        first.settings,
        {name: policy for run in runs for name, policy in run.policies.items()},
        {task: cluster for run in runs for task, cluster in run.tasks.items()},
        next((run.early_look for run in runs if run.early_look), ""),
        tuple(dict.fromkeys(caveat for run in runs for caveat in run.caveats)),
    )


def require_one_digest(rows: Iterable[EpisodeRow]) -> None:
    """Raises NotComparableError when rows come from different versions of a suite."""
    digests = sorted({row.suite_digest for row in rows if row.suite_digest})
    if len(digests) > 1:
        raise NotComparableError(
            f"episodes of {len(digests)} versions of the suite ({', '.join(d[:12] for d in digests)})",
            "compare episodes of one suite digest: same Python version, same suite settings",
        )


def _early_look(path: Path, settings: Mapping[str, Any], done: int, planned: int) -> str:
    if done >= planned or not looks_once(settings):
        return ""
    return f"Unregistered look: {path} has {done:,} of {planned:,} episodes of a plan that is registered for one look, at its end."


def _all_rows(runs: Sequence[RunData]) -> Iterable[EpisodeRow]:
    for run in runs:
        yield from run.rows
