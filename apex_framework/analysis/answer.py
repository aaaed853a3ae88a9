"""The answer of one or more runs to the question: arms, lifts, verdicts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from pathlib import Path
from typing import Any

from ..errors import ArtifactError, UnknownNameError
from .arms import ArmRole, arm_role
from .episodes import EpisodeRow, RunData, iterate_lines, merge_runs, read_run
from .lift import Lift, lift_between
from .mcnemar import holm
from .summary import ArmSummary, oracle_success, repeated_success, summarize_arm, summarize_families
from .verdict import Verdict, decide

EXPLORATORY_SPLITS = ("train", "dev")


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything that a report prints."""

    run: RunData
    roles: Mapping[str, ArmRole]
    arms: tuple[ArmSummary, ...]
    """In the plan's order."""
    families: Mapping[str, Mapping[str, ArmSummary]]
    lifts: tuple[Lift, ...]
    """Of every arm that is no baseline over every baseline, subjects first; of recorded systems, the first over all others."""
    holm: Mapping[str, float]
    """Holm-adjusted ``Lift.p`` of all lifts but the headline's, by ``arm - against``."""
    verdicts: tuple[Verdict, ...]
    """The headline first: the first controller in the plan's order."""
    latencies: Mapping[str, Mapping[str, float]]
    """Arm -> ``decision_ms`` (wall time) and ``switch_ms`` (episode time), 95th percentiles."""
    oracle_static: float | None
    """Success of the best static topology per episode, chosen in hindsight: an upper bound, partly luck."""
    repeated_static: float | None
    """Success of the best static topology in any of three runs: what luck alone brings. None under three seeds."""
    exploratory: bool
    missing_episodes: int
    """Planned and not there: an interrupted run."""
    next_command: str


def answer_runs(paths: Sequence[Path], *, best_static: str = "", seed: int = 0) -> Answer:
    """Read run folders and answer. Raises ArtifactError, NotComparableError, UnknownNameError."""
    runs = [read_run(path) for path in paths]
    run = merge_runs(runs)
    return answer_of(run, latencies=_latencies(runs), best_static=best_static, seed=seed)


def answer_of(
    run: RunData, *, latencies: Mapping[str, Mapping[str, float]] | None = None, best_static: str = "", seed: int = 0
) -> Answer:
    """The answer of merged runs. ``best_static`` is the one chosen on dev; without it the one that the plan names, or on an
    exploratory split the best there.

    Raises UnknownNameError for one that is no static arm of the run.
    """
    names = [*run.arms] or list(dict.fromkeys(row.arm for row in run.rows))
    present = {row.arm for row in run.rows}
    names = [name for name in names if name in present]
    roles = {name: arm_role(name, run.arms.get(name)) for name in names}
    arms = tuple(summarize_arm(run.rows, n, budget=_budget(run, n), seed=seed) for n in names)
    statics = [n for n in names if roles[n] is ArmRole.STATIC]
    single = next((n for n in names if roles[n] is ArmRole.SINGLE), None)
    best, source = _best_static(run, arms, statics, best_static)
    subjects = [n for n in names if roles[n] is ArmRole.SUBJECT]
    recorded = [n for n in names if roles[n] is ArmRole.RECORDED]
    others = [n for n in names if roles[n] in (ArmRole.SCHEDULE, ArmRole.CONTROL, ArmRole.MANAGER)]
    lifts, verdicts = [], []
    for name in subjects or others or recorded[:1]:
        rivals = [*statics, *([single] if single else []), *(n for n in others if n != name)]
        rivals += [*subjects[1:], *recorded] if [name] == subjects[:1] else recorded[1:] if name in recorded else []
        found = {rival: lift for rival in rivals if (lift := _lift(run.rows, name, rival, seed))}
        lifts += list(found.values())
        if name in recorded:  # nothing that was run here is under test
            continue
        verdicts.append(decide(name, found, statics=statics, single=single, best_static=best, best_static_from=source))
    headline = {f"{lift.arm} - {lift.against}" for lift in verdicts[0].lifts} if verdicts else set()
    secondary = {f"{lift.arm} - {lift.against}": lift.p for lift in lifts}
    return Answer(
        run=run,
        roles=roles,
        arms=arms,
        families=summarize_families(run.rows, names),
        lifts=tuple(lifts),
        holm=holm({key: p for key, p in secondary.items() if key not in headline}),
        verdicts=tuple(verdicts),
        latencies=latencies or {},
        oracle_static=oracle_success(run.rows, statics),
        repeated_static=repeated_success(run.rows, best) if best else None,
        exploratory=run.split in EXPLORATORY_SPLITS,
        missing_episodes=max(0, run.planned - len(run.rows)),
        next_command=_next_command(run, verdicts),
    )


def no_verdict(answer: Answer) -> str:
    """Why there is none, and what can be compared."""
    names = [arm.arm for arm in answer.arms]
    some = f"Any two of its {len(names)} arms can be compared: apex compare RUN --arm A --against B."
    why = "No verdict: no arm is a controller under test."
    return f"{why} {some if len(names) > 1 else f'There is nothing to compare {names[0]} with.' if names else 'It has no episodes.'}"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed. Raises ValueError for no values."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def _best_static(run: RunData, arms: Sequence[ArmSummary], statics: Sequence[str], given: str) -> tuple[str, str]:
    """The best static topology, and where from, as ``Verdict.best_static_from`` says."""
    if given and given not in statics:
        raise UnknownNameError("static arm of this run", given, statics)
    planned = str(run.settings.get("best_static", ""))
    if given and given != planned:
        return given, "option"
    if planned in statics:
        registered = (run.settings.get("experiment") or {}).get("registered")
        return planned, "dev" if registered else "plan"
    if run.split == "test" or not statics:
        return "", ""
    best = max((a for a in arms if a.arm in statics), key=lambda a: (a.success, -statics.index(a.arm)))
    return best.arm, "same data"


def _lift(rows: Sequence[EpisodeRow], arm: str, against: str, seed: int) -> Lift | None:
    mine = {(r.task_id, r.seed) for r in rows if r.arm == arm and r.judged}
    if not mine & {(r.task_id, r.seed) for r in rows if r.arm == against and r.judged}:
        return None
    return lift_between(rows, arm, against, seed=seed, partial=True)


def _budget(run: RunData, arm: str) -> int | None:
    budget = run.arms.get(arm, {}).get("budget")
    return int(budget) if budget else None


def _latencies(runs: Sequence[RunData]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        for name, key in (("decisions.jsonl", "decision_ms"), ("switches.jsonl", "switch_ms")):
            if not (run.path / name).exists():
                continue
            for number, row in enumerate(iterate_lines(run.path / name), 1):
                value = _milliseconds(row, key)
                if value is None:
                    what = "latency_ms" if key == "decision_ms" else "phase_ms"
                    raise ArtifactError(
                        f"{run.path / name}, line {number}: {what} is missing or no time in milliseconds",
                        "restore the file or run again",
                    )
                if not isinstance(row.get("arm"), str):
                    raise ArtifactError(
                        f"{run.path / name}, line {number}: arm is missing or no text", "restore the file or run again"
                    )
                found.setdefault(row["arm"], {}).setdefault(key, []).append(value)
    return {arm: {key: percentile(v, 0.95) for key, v in by.items()} for arm, by in found.items()}


def _milliseconds(row: Mapping[str, Any], key: str) -> float | None:
    """A decision's latency, or the sum of a switch's phases; None where the line has no such numbers."""
    phases = row.get("phase_ms") or {}
    if key != "decision_ms" and not isinstance(phases, dict):
        return None
    values: list[Any] = [row.get("latency_ms")] if key == "decision_ms" else list(phases.values())
    if any(type(value) not in (int, float) or not 0.0 <= value < inf for value in values):
        return None
    return float(sum(values))


def _next_command(run: RunData, verdicts: Sequence[Verdict]) -> str:
    """What to run to learn more."""
    if not verdicts:
        return ""
    name = verdicts[0].arm
    controller = str(run.arms.get(name, {}).get("controller", name))
    command = shlex.join(["apex", "run", "--controller", controller, "--suite", f"{run.suite}/test", *_options(run)])
    if run.split in EXPLORATORY_SPLITS:
        return command
    needed = max((lift.tasks_needed(0.05) or 0 for lift in verdicts[0].lifts), default=0)
    return f"{command} --episodes {needed}" if needed else ""


def _options(run: RunData) -> list[str]:
    """What the run's suite was given, as a command takes it."""
    options = run.settings.get("suite_options") or {}
    places = [word for name in ("data", "repos") if name in options for word in (f"--{name}", str(options[name]))]
    others = ",".join(f"{name}={value}" for name, value in options.items() if name not in ("data", "repos"))
    return [*places, *(["--set", f"suite_options={others}"] if others else [])]
