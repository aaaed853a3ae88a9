"""Exporter ``otlp``: metrics, and episodes as spans, to an OpenTelemetry collector over HTTP, from a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from apex_framework.events import Event
from apex_framework.interfaces import MetricSample

from .options import number, read_options
from .otel_form import Spans, metrics_data

_log = logging.getLogger(__name__)
_SPANS: Final = 2_000
"""Episodes that may wait for the collector; the oldest are given up first."""


class Otlp:
    """Options: ``endpoint`` (by default what OTEL_EXPORTER_OTLP_ENDPOINT says, else http://localhost:4318) and
    ``timeout_s``, which bounds one request and the time that ``close`` takes.

    ``emit`` and ``metrics`` only leave something for the thread. A collector that does not answer costs the run nothing
    but that time at the end, and is told once. Metrics are shown as they are when the thread gets to them.
    """

    name = "otlp"

    def __init__(self, spec: str = "") -> None:
        options = read_options(self.name, spec, {"endpoint": "", "timeout_s": "2"})
        timeout = self._timeout_s = number(self.name, "timeout_s", options["timeout_s"], 0.05, 60)
        base = options["endpoint"].rstrip("/")
        self._metric_exporter = OTLPMetricExporter(f"{base}/v1/metrics" if base else None, timeout=timeout)
        self._span_exporter = OTLPSpanExporter(f"{base}/v1/traces" if base else None, timeout=timeout)
        self._resource = Resource.create({"service.name": "apex-framework"})
        self._started_ns = time.time_ns()
        self._turns = Spans(self._resource)
        self._spans: deque[ReadableSpan] = deque(maxlen=_SPANS)
        self._samples: tuple[MetricSample, ...] = ()
        self._news = threading.Condition()
        self._closing = self._failed = False
        self._thread = threading.Thread(target=self._work, name=f"apex-otlp-{id(self)}", daemon=True)
        self._quiet = _Quiet(self._thread.name)
        self._thread.start()

    def emit(self, event: Event) -> None:
        """Add to the span of the event's episode; the end of an episode sends it."""
        span = self._turns.take(event)
        if span is not None:
            with self._news:
                self._spans.append(span)
                self._news.notify()

    def metrics(self, samples: Sequence[MetricSample]) -> None:
        """These are the metrics now."""
        with self._news:
            self._samples = tuple(samples)
            self._news.notify()

    def close(self) -> None:
        """Send what is left, for at most the time-out."""
        with self._news:
            if self._closing:
                return
            self._closing = True
            self._news.notify()
        self._thread.join(self._timeout_s)
        for exporter in (self._metric_exporter, self._span_exporter):
            exporter.shutdown()  # ends the wait for another try
        self._thread.join(self._timeout_s)
        if self._thread.is_alive():
            self._tell("it did not answer in time")
        self._quiet.remove()

    def _work(self) -> None:
        closing = False
        while not closing:
            with self._news:
                self._news.wait_for(lambda: self._closing or self._samples or self._spans)
                closing, samples = self._closing, self._samples
                spans = [self._spans.popleft() for _ in range(len(self._spans))]
                self._samples = ()
            if closing and self._failed:
                return
            if samples:
                self._send(partial(self._send_metrics, samples))
            if spans:
                self._send(partial(self._send_spans, spans))

    def _send_metrics(self, samples: Sequence[MetricSample]) -> bool:
        data = metrics_data(samples, self._resource, self._started_ns, time.time_ns())
        return self._metric_exporter.export(data) is MetricExportResult.SUCCESS

    def _send_spans(self, spans: Sequence[ReadableSpan]) -> bool:
        return self._span_exporter.export(spans) is SpanExportResult.SUCCESS

    def _send(self, send: Callable[[], bool]) -> None:
        try:
            if send():
                return
            reason = self._quiet.last or "it refused"
        except Exception as error:  # noqa: BLE001 - the thread's edge: an exporter must not end a run
            reason = f"{type(error).__name__}: {error}"
        self._tell(reason)

    def _tell(self, reason: str) -> None:
        if not self._failed:
            self._failed = True
            _log.warning("exporter otlp reaches no collector, and the run goes on without it: %s", reason)


class _Quiet(logging.Filter):
    """Keeps what the SDK's exporters log from one thread, instead of letting them log every try."""

    NAMES: Final = tuple(
        f"opentelemetry.exporter.otlp.{place}" for place in ("proto.http.metric_exporter", "proto.http.trace_exporter")
    )

    def __init__(self, thread: str) -> None:
        super().__init__()
        self._thread = thread
        self.last = ""
        for name in self.NAMES:
            logging.getLogger(name).addFilter(self)

    def filter(self, record: Any) -> bool:
        """Nothing of this thread."""
        if record.threadName != self._thread:
            return True
        self.last = record.getMessage()
        return False

    def remove(self) -> None:
        """Let everything pass again."""
        for name in self.NAMES:
            logging.getLogger(name).removeFilter(self)
