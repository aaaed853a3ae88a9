"""The metrics of a finished run: every episode's, put together per arm, as JSONL with bins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..events import EpisodeFinished
from ..interfaces import MetricSample
from ..telemetry.buckets import checked_buckets
from ..telemetry.meters import EventMeter
from ..telemetry.registry import Registry, from_row, to_row
from .layout import METRICS, THROUGHPUT
from .lines import key_of, read_rows, to_line

if TYPE_CHECKING:
    from .artifacts import RunFolder


class RunMetrics:
    """Metrics of a run as its episodes come in, one registry per arm."""

    def __init__(self, hist_buckets: Mapping[str, object] | None = None) -> None:
        self._buckets = checked_buckets(hist_buckets or {})
        self._arms: dict[str, tuple[Registry, EventMeter]] = {}

    def add(self, record: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], place: str = "") -> None:
        """Take one episode: its line, and its metrics as lines. Raises ArtifactError, with the place."""
        arm = str(record["arm"])
        if arm not in self._arms:
            registry = Registry(buckets=self._buckets, common={"arm": arm})
            self._arms[arm] = registry, EventMeter(registry)
        registry, meter = self._arms[arm]
        meter(EpisodeFinished(arm, record))
        registry.merge(from_row(row, f"{place}, line {number}") for number, row in enumerate(rows, 1))

    def samples(self) -> tuple[MetricSample, ...]:
        """All of them as they are now, each with its arm as the first label."""
        return tuple(sample for registry, _ in self._arms.values() for sample in registry.snapshot())


def write_measured(folder: RunFolder) -> None:
    """``metrics/metrics.jsonl``, and ``metrics/throughput.jsonl``: per arm and class of message."""
    run = RunMetrics(folder.plan.settings.get("hist_buckets"))
    for record in folder.lines():  # in plan order by now
        path = folder.episode_path(key_of(record)) / "metrics.jsonl"
        run.add(record, read_rows(path), str(path))
    names = [arm.name for arm in folder.plan.arms]
    samples = sorted(run.samples(), key=lambda sample: (names.index(sample.labels[0][1]), sample.name, sample.labels))
    folder.replace(METRICS, b"".join(to_line(to_row(sample)) for sample in samples))
    folder.replace(THROUGHPUT, b"".join(to_line(row) for row in throughput(samples)))


def throughput(samples: Sequence[MetricSample]) -> Iterator[dict[str, Any]]:
    """Per arm and class: hops admitted, acknowledged, dead and refused, and acknowledged per second."""
    seconds = {s.labels[0][1]: s.value / 1000 for s in samples if s.name == "episode_ms"}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for sample in samples:
        what = sample.name.removeprefix("messages_").removesuffix("_total")
        labels = dict(sample.labels)
        if what not in ("admitted", "acked", "lost"):
            continue
        arm, priority = labels["arm"], labels["priority"]
        blank = {"arm": arm, "priority": priority, "seconds": seconds.get(arm, 0.0), "admitted": 0, "acked": 0}
        row = rows.setdefault((arm, priority), {**blank, "dead": 0, "refused": 0})
        row[labels.get("how", what)] = int(sample.value)
    for row in rows.values():
        yield {**row, "acked_per_s": row["acked"] / row["seconds"] if row["seconds"] else None}
