"""Service level objectives of a run: every measured number made from the lines of its artifacts."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from ..errors import ArtifactError, ConfigError
from .answer import percentile
from .episodes import read_episodes, read_lines, read_run
from .intervals import clopper_pearson_upper

PASS, FAIL, NO_DATA, TOO_FEW = "pass", "FAIL", "no data", "too few"
"""Results. The last two are no pass: nothing was measured, or too little for the target to be reached at all."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be reached: ``measured < limit``, or ``<=``."""

    name: str
    limit: float
    meaning: str
    strictly: bool = True

    @property
    def text(self) -> str:
        """The limit as it is printed."""
        return f"{'<' if self.strictly else '<='} {self.limit:g}"

    def reached(self, measured: float) -> bool:
        """Whether a measured value is within the limit."""
        return measured < self.limit if self.strictly else measured <= self.limit


TARGETS: tuple[Target, ...] = (
    Target("controller_p95_ms", 10.0, "95th percentile of a decision, wall time, of the slowest arm"),
    Target("switch_p95_ms", 100.0, "95th percentile of a committed switch, probe included, episode time"),
    Target("switch_p99_ms", 150.0, "99th percentile of the same", strictly=False),
    Target("probe_p95_ms", 20.0, "95th percentile of the examination of a target, episode time"),
    Target("overspend_upper", 0.01, "95 % Clopper-Pearson bound on episodes that spend more than they have", False),
    Target("stress_loss_mean", 0.005, "mean over seeds of messages lost for good under stress", strictly=False),
    Target("stress_loss_p95", 0.01, "95th percentile over seeds of the same", strictly=False),
    Target("stress_final_lost", 0.0, "messages of class final lost for good under stress", strictly=False),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A number with what it is of."""

    value: float
    n: int
    note: str = ""
    enough: bool = True
    """False when so few cannot reach the default target, whatever they are."""


@dataclass(frozen=True, slots=True)
class Line:
    """A target and what became of it."""

    target: Target
    measured: Measured | None
    result: str


def evaluate(
    path: Path,
    targets: Sequence[Target] = TARGETS,
    *,
    stress: Path | None = None,
    stamp: Mapping[str, str] | None = None,
) -> tuple[Line, ...]:
    """Measure every target in a run folder; ``stress`` is the file that ``apex bench stress --out`` wrote.

    By default the folder's own ``stress.jsonl``. ``stamp`` is what rows of the right load carry: the profile's name, the
    hash of its file. Raises ArtifactError for a folder with nothing in it, for damage, and for rows of another load.
    """
    own = path / "stress.jsonl"
    source = stress or (own if own.exists() else None)
    if not (path / "episodes.jsonl").exists() and source is None:
        raise ArtifactError(f"{path} is no run folder: no episodes.jsonl", "name a folder that apex run made")
    measured: dict[str, Measured] = {}
    if (path / "episodes.jsonl").exists():
        measured |= _controller(path) | _switches(path) | _probes(path) | _overspend(path, targets)
    if source is not None:
        measured |= _stress(source, stamp or {})
    return tuple(_line(target, measured.get(target.name)) for target in targets)


def read_targets(table: Mapping[str, tuple[str, Any]]) -> tuple[Target, ...]:
    """The default targets with limits from a file: name -> (place, limit). Raises ConfigError with the place."""
    known = {target.name: target for target in TARGETS}
    for name, (place, limit) in table.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            remedy = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise ConfigError(f"{place}: unknown target {name!r}", remedy)
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not isfinite(limit):
            raise ConfigError(f"{place}: the limit of {name!r} is {limit!r}, no number", f"write {name} = 10")
        known[name] = replace(known[name], limit=float(limit))
    return tuple(known.values())


def _line(target: Target, measured: Measured | None) -> Line:
    if measured is None:
        return Line(target, None, NO_DATA)
    if target.reached(measured.value):
        return Line(target, measured, PASS)
    return Line(target, measured, FAIL if measured.enough else TOO_FEW)


def _controller(path: Path) -> dict[str, Measured]:
    arms: dict[str, list[float]] = {}
    for place, row in _rows(path / "decisions.jsonl"):
        arms.setdefault(str(row.get("arm", "")), []).append(_number(place, row, "latency_ms"))
    if not arms:
        return {}
    value, n, arm = max((percentile(values, 0.95), len(values), arm) for arm, values in arms.items())
    return {"controller_p95_ms": Measured(value, n, f"arm {arm}")}


def _switches(path: Path) -> dict[str, Measured]:
    taken, bare = [], []
    aborted = 0
    for place, row in _rows(path / "switches.jsonl"):
        phases = row.get("phase_ms") or {}
        if not isinstance(phases, Mapping):
            raise ArtifactError(f"{place}: phase_ms is no table", "restore the file or run again")
        if row.get("ok"):
            taken.append(_number(place, row, "whole_ms", sum(_number(place, phases, phase) for phase in phases)))
            bare.append(taken[-1] - _number(place, phases, "probe", 0.0))
        else:
            aborted += 1
    if not taken:
        return {}
    real_time = _real_time(path)

    def measured(share: float) -> Measured:
        notes = [] if real_time else ["virtual time: waiting, no work"]
        notes += [f"{percentile(bare, share):.4g} without the probe"] if bare != taken else []
        notes += [f"{aborted} aborted not counted"] if aborted else []
        return Measured(percentile(taken, share), len(taken), ", ".join(notes))

    return {"switch_p95_ms": measured(0.95), "switch_p99_ms": measured(0.99)}


def _real_time(path: Path) -> bool:
    """Whether a run's episodes went by the machine's clock; in virtual time work takes none."""
    try:
        return bool(json.loads((path / "run.json").read_bytes())["plan"].get("real_time"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{path} is no run folder: {error}", "name a folder that apex run made") from error


def _probes(path: Path) -> dict[str, Measured]:
    probes = [
        _number(place, row, "elapsed_ms")
        for place, row in _rows(path / "events.jsonl")
        if row.get("event") == "TopologyProbed"
    ]
    return {"probe_p95_ms": Measured(percentile(probes, 0.95), len(probes))} if probes else {}


def _overspend(path: Path, targets: Sequence[Target]) -> dict[str, Measured]:
    run = read_run(path)
    budgets = {name: int(arm.get("budget") or 0) for name, arm in run.arms.items()}
    rows = [row for row in read_episodes(path) if budgets.get(row.arm) and row.watched(budgets[row.arm])]
    told = [(row.tokens, budgets[row.arm]) for row in rows if row.tokens is not None]
    if not rows or len(told) < len(rows):
        return {}
    over = sum(tokens > budget for tokens, budget in told)
    limit = next((target.limit for target in targets if target.name == "overspend_upper"), 1.0)
    best = clopper_pearson_upper(0, len(rows))
    note = f"{over} of {len(rows)}"
    return {
        "overspend_upper": Measured(clopper_pearson_upper(over, len(rows)), len(rows), note, best <= limit or over > 0)
    }


def _stress(path: Path, stamp: Mapping[str, str]) -> dict[str, Measured]:
    """From the rows of bench ``stress``: the contender with everything on, over many seeds in virtual time.

    Nothing when no message was offered: that none was lost says nothing then.
    """
    found: dict[str, Measured] = {}
    offered = 0.0
    for place, row in _rows(path, needed=True):
        if row.get("bench") != "stress" or row.get("contender") != "apex" or "real time" in str(row.get("case")):
            continue
        for column, value in stamp.items():
            if row.get(column) != value:
                said = json.dumps(row.get(column), default=str)
                raise ArtifactError(
                    f"{place}: measured under another load: {column} is {said}, not {value}",
                    "run again, with the shipped profile S: apex bench stress --out FOLDER",
                )
        note = f"{row.get('case', '')}, lost for good"
        if row.get("metric") == "offered":
            offered += _number(place, row, "value")
        elif row.get("metric") == "loss, mean":
            seeds = row.get("per_seed")
            if not isinstance(seeds, list) or not seeds:
                raise ArtifactError(f"{place}: no loss per seed", "run again: apex bench stress --out FOLDER")
            losses = [_number(place, {"loss": value}, "loss") for value in seeds]
            found["stress_loss_mean"] = Measured(sum(losses) / len(losses), len(losses), note)
            found["stress_loss_p95"] = Measured(percentile(losses, 0.95), len(losses), note)
        elif row.get("metric") == "lost of class final":
            found["stress_final_lost"] = Measured(_number(place, row, "value"), 1, note)
    return found if offered else {}


def _rows(path: Path, *, needed: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, object) of every line."""
    if needed or path.exists():
        for number, row in enumerate(read_lines(path), 1):
            yield f"{path}, line {number}", row


def _number(place: str, row: Mapping[str, Any], column: str, default: float | None = None) -> float:
    value = row.get(column)
    if default is not None and not value:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        said = json.dumps(value, default=str)
        raise ArtifactError(f"{place}: {column} is {said}, no number of at least 0", "restore the file or run again")
    return float(value)
