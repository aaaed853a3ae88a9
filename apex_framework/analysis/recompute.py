"""Metrics made again from a run folder's lines, and compared with those that it tells: a forged number is found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isclose
from pathlib import Path
from typing import Any

from ..errors import ArtifactError
from ..events import EpisodeFinished
from ..experiment.layout import EPISODES, METRICS, SUMMARY, episode_folder
from ..experiment.lines import key_of
from ..experiment.plan import Key
from ..telemetry.buckets import checked_buckets
from ..telemetry.histogram import TOKENS, Histogram
from ..telemetry.meters import EventMeter, event_of
from ..telemetry.registry import Registry, to_row
from .episodes import read_lines, read_run

COUNTED = ("success", "overfit", "tokens", "steps", "switches", "aborted", "denied", "calls")
SIDES = ("decisions.jsonl", "switches.jsonl", "calls.jsonl", "events.jsonl")

Row = Mapping[str, Any]


def recompute_metrics(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(metric, labels as JSON) -> line, for every metric that follows from decisions, switches, calls, events, traces.

    Raises ArtifactError. Polled quantities (occupancy, scopes of budgets) have no other trace than themselves and are
    left out.
    """
    run = read_run(path)
    buckets = checked_buckets(run.settings.get("hist_buckets") or {})
    sides: dict[Key, list[Row]] = {}
    for name in SIDES:
        for row in _lines(path / name):
            sides.setdefault(key_of(row, str(path / name)), []).append(row)
    arms: dict[str, Registry] = {}
    for record in _lines(path / EPISODES):
        key = key_of(record, str(path / EPISODES))
        episode = Registry(buckets=buckets)
        meter = EventMeter(episode)
        for line in sides.get(key, ()):
            event = event_of(line, "/".join(map(str, key)))
            if event is not None:
                meter(event)
        _count_trace(episode, path, key)
        arm = arms.setdefault(key[0], Registry(buckets=buckets, common={"arm": key[0]}))
        EventMeter(arm)(EpisodeFinished(key[0], record))
        arm.merge(episode.snapshot())
    rows = [to_row(sample) for registry in arms.values() for sample in registry.snapshot()]
    return {_name(row): row for row in rows}


def recompute_summary(path: Path) -> dict[str, dict[str, Any]]:
    """What ``metrics/summary.json`` has to say. Raises ArtifactError."""
    run = read_run(path)
    records = _lines(path / EPISODES)
    return summarize(list(run.arms), records, {name: _lines(path / name) for name in SIDES[:3]})


def summarize(arms: Sequence[str], records: Iterable[Row], sides: Mapping[str, Iterable[Row]]) -> dict[str, Any]:
    """Per arm counters, and histograms of decisions, switch phases and calls; ``sides`` by name of the file."""
    blank = dict.fromkeys(("episodes", "infrastructure", *COUNTED), 0)
    summary: dict[str, dict[str, Any]] = {arm: {"counters": dict(blank), "histograms": {}} for arm in arms}
    for record in records:
        counters = summary[record["arm"]]["counters"] if record["arm"] in summary else dict(blank)
        counters["episodes"] += 1
        counters["infrastructure"] += record.get("status") == "infrastructure"
        for name in COUNTED:
            counters[name] += int(record.get(name) or 0)
    found: dict[tuple[str, str], Histogram] = {}

    def take(arm: str, name: str, value: object, histogram: Histogram) -> None:
        if isinstance(value, int | float):
            found.setdefault((arm, name), histogram).add(float(value))

    for row in sides["decisions.jsonl"]:
        take(row["arm"], "decision_latency_ms", row.get("latency_ms"), Histogram())
    for row in sides["switches.jsonl"]:
        for phase, value in (row.get("phase_ms") or {}).items():
            take(row["arm"], f"switch_{phase}_ms", value, Histogram())
    for row in sides["calls.jsonl"]:
        take(row["arm"], "call_tokens_in", row.get("tokens_in"), Histogram(TOKENS))
        take(row["arm"], "call_tokens_out", row.get("tokens_out"), Histogram(TOKENS))
    for (arm, name), histogram in sorted(found.items()):
        summary[arm]["histograms"][name] = histogram.to_json()
    return summary


def differences(path: Path) -> Iterator[str]:
    """What a run folder tells of itself and its own lines do not bear out, one sentence each. Raises ArtifactError."""
    told = {_name(row): row for row in _lines(path / METRICS)}
    for name, made in recompute_metrics(path).items():
        if name not in told:
            yield f"{METRICS}: line missing: {_written(name)}"
        else:
            yield from _compare(f"{METRICS}: {_written(name)}", told[name], made)
    if (path / SUMMARY).exists():
        try:
            summary = json.loads((path / SUMMARY).read_bytes())
        except ValueError as error:
            raise ArtifactError(f"{path / SUMMARY} is damaged: {error}", "start a new run") from error
        yield from _compare(SUMMARY, summary, recompute_summary(path))


def _compare(where: str, told: Any, made: Any) -> Iterator[str]:
    if isinstance(made, Mapping) and isinstance(told, Mapping):
        for key in made:
            yield from _compare(f"{where}, {key}", told.get(key), made[key])
    elif isinstance(made, list) and isinstance(told, list) and len(made) == len(told):
        for number, (one, other) in enumerate(zip(told, made, strict=True)):
            yield from _compare(f"{where}[{number}]", one, other)
    elif isinstance(made, int | float) and isinstance(told, int | float):
        if not isclose(made, told, rel_tol=1e-9, abs_tol=1e-9):
            yield f"{where}: {told:g} is told, {made:g} is what the lines come to"
    elif isinstance(made, Mapping | list):
        yield f"{where}: {'missing' if told is None else 'not of the form that the lines come to'}"
    elif made != told:
        yield f"{where}: {told!r} is told, {made!r} is what the lines come to"


def _count_trace(registry: Registry, path: Path, key: Key) -> None:
    """Hops by their ends, from a trace: what the router counted, counted by somebody else."""
    ends: Counter[tuple[str, str, str]] = Counter()
    for row in _lines(episode_folder(path, key) / "trace.jsonl"):
        if row.get("what") in ("acked", "dead"):
            ends[str(row["what"]), str(row.get("priority", "")), str(row.get("reason", ""))] += 1
    for (what, priority, reason), count in ends.items():
        if not priority:
            continue
        registry.counter("messages_admitted_total", priority=priority).inc(count)
        if what == "acked":
            registry.counter("messages_acked_total", priority=priority).inc(count)
        else:
            registry.counter("messages_lost_total", priority=priority, how="dead").inc(count)
            registry.counter("messages_dead_total", reason=reason).inc(count)


def _lines(path: Path) -> list[dict[str, Any]]:
    return read_lines(path, missing_ok=True)


def _written(name: tuple[str, str]) -> str:
    labels = json.loads(name[1]) or {}
    return f"{name[0]}{{{','.join(f'{label}={json.dumps(value)}' for label, value in labels.items())}}}"


def _name(row: Row) -> tuple[str, str]:
    return str(row.get("metric")), json.dumps(row.get("labels"), sort_keys=True)
