"""Our metrics and events in OpenTelemetry's own data types."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from apex_framework.events import BackendWarmed, EpisodeFinished, EpisodeStarted, Event, MessageMoved, RunFinished
from apex_framework.interfaces import MetricSample

SCOPE = InstrumentationScope("apex_framework")
_CUMULATIVE = AggregationTemporality.CUMULATIVE
_EVENTS_PER_SPAN = 1_000


def metrics_data(samples: Iterable[MetricSample], resource: Resource, since_ns: int, now_ns: int) -> MetricsData:
    """Samples as one export: names, units and buckets as declared, cumulative since ``since_ns``."""
    by_name: dict[str, list[MetricSample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    metrics = [
        Metric(name, series[0].help, series[0].unit, _data(series, since_ns, now_ns))
        for name, series in by_name.items()
    ]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(SCOPE, metrics, "")], "")])


def _data(series: list[MetricSample], since_ns: int, now_ns: int) -> Sum | Gauge | Histogram:
    if series[0].kind == "histogram":
        points = [
            HistogramDataPoint(
                attributes=dict(s.labels),
                start_time_unix_nano=since_ns,
                time_unix_nano=now_ns,
                count=s.count,
                sum=s.value,
                bucket_counts=list(s.counts),
                explicit_bounds=list(s.bounds),
                min=s.smallest,
                max=s.largest,
            )
            for s in series
        ]
        return Histogram(points, _CUMULATIVE)
    numbers = [NumberDataPoint(dict(s.labels), since_ns, now_ns, s.value) for s in series]
    return Sum(numbers, _CUMULATIVE, is_monotonic=True) if series[0].kind == "counter" else Gauge(numbers)


class Spans:
    """Turns an episode into a span: what happened in it are the span's events. All of a run's spans are one trace.

    Times are those at which this process heard of it: what a worker did is told when its episode is done.
    """

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._ids = RandomIdGenerator()
        self._trace_id = self._ids.generate_trace_id()
        self._open: dict[str, tuple[int, dict[str, Any], list[SpanEvent]]] = {}

    def take(self, event: Event) -> ReadableSpan | None:
        """A finished span, when this event ends an episode."""
        if isinstance(event, EpisodeStarted):
            about = {"apex.arm": event.arm, "apex.task": event.task_id, "apex.seed": event.seed}
            self._open[event.episode_id] = (time.time_ns(), about, [])
        elif isinstance(event, EpisodeFinished):
            return self._ended(event)
        elif not isinstance(event, MessageMoved | RunFinished | BackendWarmed) and event.episode_id in self._open:
            events = self._open[event.episode_id][2]
            if len(events) < _EVENTS_PER_SPAN:
                events.append(SpanEvent(type(event).__name__, _attributes(asdict(event)), time.time_ns()))
        return None

    def _ended(self, event: EpisodeFinished) -> ReadableSpan | None:
        found = self._open.pop(event.episode_id, None)
        if found is None:
            return None
        started, about, events = found
        broken = event.record.get("status") == "infrastructure"
        flags = TraceFlags(TraceFlags.SAMPLED)
        return ReadableSpan(
            name=f"episode {event.episode_id}",
            context=SpanContext(self._trace_id, self._ids.generate_span_id(), False, flags),
            resource=self._resource,
            attributes={**about, **{f"apex.{key}": value for key, value in _attributes(event.record).items()}},
            events=events,
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, str(event.record.get("reason", ""))) if broken else Status(),
            start_time=started,
            end_time=time.time_ns(),
            instrumentation_scope=SCOPE,
        )


def _attributes(values: Mapping[str, Any]) -> dict[str, str | bool | int | float]:
    """Plain values as they are, others as JSON text."""
    plain = (str, bool, int, float)
    return {key: v if isinstance(v, plain) else json.dumps(v, default=str) for key, v in values.items()}
