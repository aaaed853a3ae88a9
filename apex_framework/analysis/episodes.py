"""Rows of episodes.jsonl and the facts of run.json, as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

from ..errors import ArtifactError, NotComparableError
from ..experiment.lines import iterate_rows
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

    reason: str = field(default="", compare=False)
    """Why it ended, in the words of whoever ended it."""

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
                reason=str(row.get("reason") or ""),
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
    seeds: tuple[int, ...] = ()
    """Of the plan."""


def read_lines(path: Path, *, missing_ok: bool = False) -> list[dict[str, Any]]:
    """All of ``iterate_lines``. Raises ArtifactError."""
    return list(iterate_lines(path, missing_ok=missing_ok))


def iterate_lines(path: Path, *, missing_ok: bool = False) -> Iterator[dict[str, Any]]:
    """Objects of a JSONL file, one after the other; a last line without a newline, torn by an interruption, is left out.

    Raises ArtifactError when the file is damaged, or missing: with ``missing_ok`` a missing one has no lines.
    """
    return (row for _, row in iterate_rows(path, missing_ok=missing_ok))


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
    from ..experiment.artifacts import read_run as read_facts  # it writes run folders, which reading need not load

    data = read_facts(path)
    try:
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
            seeds=tuple(map(int, plan["seeds"])),
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ArtifactError(f"{path} is no run folder: {error}", "name a folder that apex run made") from error


def merge_runs(runs: Sequence[RunData]) -> RunData:
    """Several runs over the same suite as one, whatever their order.

    Raises NotComparableError for mixed digests, splits or levels, for an arm that has other settings or another policy in
    one of them, for an episode that ended otherwise, and for plans that name different best static topologies.
    """
    if not runs:
        raise NotComparableError("there is no run to compare", "name at least one run folder")
    first = runs[0]
    arms: dict[str, Mapping[str, Any]] = {}
    for other in runs:
        for what in ("suite", "suite_digest", "split", "level"):
            if getattr(other, what) != getattr(first, what):
                raise NotComparableError(
                    f"{other.path} has {what} {getattr(other, what)!r}, {first.path} has {getattr(first, what)!r}",
                    "compare runs of the same suite, made on the same Python version",
                )
        for name, arm in other.arms.items():
            if arms.setdefault(name, arm) != arm:
                raise NotComparableError(f"the arm {name!r} has other settings in {other.path}", "name arms apart")
    seen: dict[tuple[str, str, int], EpisodeRow] = {}
    for row in _all_rows(runs):
        keep_once(seen, (row.arm, row.task_id, row.seed), row)
    require_one_digest(seen.values())
    return RunData(
        first.path,
        tuple(seen.values()),
        first.suite,
        first.split,
        first.suite_digest,
        first.level,
        "; ".join(dict.fromkeys(run.command for run in runs if run.command)),
        first.planned if len(runs) == 1 else len(seen.keys() | _planned(runs)),
        arms,
        _settings(runs),
        policies_of(runs),
        {task: cluster for run in runs for task, cluster in run.tasks.items()},
        next((run.early_look for run in runs if run.early_look), ""),
        tuple(dict.fromkeys(caveat for run in runs for caveat in run.caveats)),
        tuple(dict.fromkeys(seed for run in runs for seed in run.seeds)),
    )


def keep_once(seen: dict[Any, EpisodeRow], key: Any, row: EpisodeRow) -> bool:
    """Whether an episode is new to ``seen``, which gets it. Raises NotComparableError when another one is there."""
    if (known := seen.setdefault(key, row)) != row:
        raise NotComparableError(f"episode {key} differs between the runs", "compare runs with other arms or seeds")
    return known is row


def policies_of(runs: Iterable[RunData]) -> dict[str, str]:
    """Arm -> digest of its policy. Raises NotComparableError when an arm has another one in another run."""
    found: dict[str, str] = {}
    for run in runs:
        for name, policy in run.policies.items():
            if found.setdefault(name, policy) != policy:
                raise NotComparableError(
                    f"the arm {name!r} has another policy in {run.path}",
                    "name arms apart, or compare runs with one policy",
                )
    return found


def _planned(runs: Iterable[RunData]) -> set[tuple[str, str, int]]:
    return {key for run in runs for key in product(run.arms, run.tasks, run.seeds)}


def _settings(runs: Sequence[RunData]) -> Mapping[str, Any]:
    """Those of the first, but for the best static topology, which is the one that any names, registered only if all are."""
    named = {str(run.settings["best_static"]): run for run in runs if run.settings.get("best_static")}
    if len(named) > 1:
        raise NotComparableError(
            f"the plans name different best static topologies: {', '.join(sorted(named))}", "compare these runs apart"
        )
    if len(runs) == 1 or not named:
        return runs[0].settings
    experiments = [run.settings.get("experiment") or {} for run in runs]
    unregistered = next((found for found in experiments if not found.get("registered")), experiments[0])
    return {**runs[0].settings, "best_static": next(iter(named)), "experiment": unregistered}


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
