"""The built-in exporters: their kit, what they write, and readers of the formats' owners that can read it."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra [telemetry]")
pytest.importorskip("prometheus_client", reason="needs the extra [telemetry]")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from apex_exporters.jsonl import Jsonl
from apex_exporters.otlp import Otlp
from apex_exporters.prometheus import Prometheus
from apex_framework.errors import ConfigError
from apex_framework.events import EpisodeFinished, EpisodeStarted
from apex_framework.interfaces import MetricSample, OpensInRun, TakesMetrics
from apex_framework.plugins import load_plugins
from apex_framework.telemetry.metrics import METRICS
from apex_framework.telemetry.registry import Registry
from apex_framework.testing import check_exporter
from apex_framework.testing.exporter import events, samples


def everything() -> tuple[MetricSample, ...]:
    """Every declared metric, with two sets of labels where it has labels."""
    registry = Registry(common={"arm": 'with "quotes", \\ and\nlines'})
    for name, spec in METRICS.items():
        for text in ("x", "y z"):
            labels = dict.fromkeys(spec.labels, text)
            if spec.kind == "counter":
                registry.counter(name, **labels).inc(2)
            elif spec.kind == "gauge":
                registry.gauge(name, **labels).set(0.5)
            else:
                registry.histogram(name, **labels).observe(3.0)
    return registry.snapshot()


class Collector:
    """A real OTLP receiver on loopback; ``status`` is what it answers, after ``delay_s``."""

    def __init__(self, status: int = 200, delay_s: float = 0.0) -> None:
        self.requests: dict[str, list[bytes]] = {"/v1/metrics": [], "/v1/traces": []}
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests[self.path].append(body)
                time.sleep(delay_s)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Not on stderr."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def spec(self) -> str:
        return f"endpoint=http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def unused_port() -> Iterator[int]:
    """Held, and nobody listens: no other process gets it meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


# --- the kit --------------------------------------------------------------------------------------


def test_the_built_in_exporters_are_registered_and_take_metrics() -> None:
    catalog = load_plugins().catalog
    assert {"jsonl", "prometheus", "otlp"} <= set(catalog.names("exporter"))
    for name, opens in (("jsonl", True), ("prometheus", True), ("otlp", False)):
        made: Any = catalog.make("exporter", name)
        assert made.name == name and isinstance(made, TakesMetrics) and isinstance(made, OpensInRun) == opens
        made.close()


def test_jsonl_conforms() -> None:
    check_exporter(Jsonl)


def test_prometheus_conforms() -> None:
    check_exporter(Prometheus)
    check_exporter(lambda: Prometheus("port=0;format=openmetrics"))


def test_otlp_conforms_with_a_collector(collector: Collector) -> None:
    check_exporter(lambda: Otlp(collector.spec))


def test_otlp_conforms_without_a_collector(unused_port: int) -> None:
    check_exporter(lambda: Otlp(f"endpoint=http://127.0.0.1:{unused_port};timeout_s=0.2"))


@pytest.mark.parametrize("name", ["jsonl", "prometheus", "otlp"])
def test_wrong_options_are_one_line(name: str) -> None:
    make = load_plugins().catalog.make
    with pytest.raises(ConfigError, match=f"exporter '{name}' takes no option 'colour'"):
        make("exporter", f"{name}:colour=red")
    option = {"jsonl": "folder", "prometheus": "textfile", "otlp": "endpoint"}[name]
    with pytest.raises(ConfigError, match=f"option '{option}' has no value"):
        make("exporter", f"{name}:{option}=")
    with pytest.raises(ConfigError) as caught:
        make("exporter", f"{name}:{option[:-1]}=x")
    assert caught.value.remedy == f"did you mean {option!r}?"


# --- jsonl ----------------------------------------------------------------------------------------


def test_jsonl_writes_every_event_and_the_latest_metrics(tmp_path: Path) -> None:
    exporter = Jsonl()
    exporter.open(str(tmp_path))
    for event in events():
        exporter.emit(event)
    exporter.metrics(samples()[:1])
    exporter.metrics(samples())
    exporter.close()
    told = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [row["event"] for row in told] == [type(event).__name__ for event in events()]
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["metric"] for row in rows] == [sample.name for sample in samples()]
    (bias,) = (row for row in rows if row["metric"] == "token_est_bias_pct")
    assert (bias["bounds"], bias["counts"], bias["count"]) == ([-1.0, 0.0, 2.5], [1, 0, 1, 0], 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.jsonl", "metrics.jsonl"]


def test_jsonl_goes_on_with_an_interrupted_runs_file(tmp_path: Path) -> None:
    for _ in range(2):
        exporter = Jsonl()
        exporter.open(str(tmp_path))
        exporter.emit(EpisodeStarted("e", "a", "t", 0))
        exporter.close()
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 2


def test_a_disk_that_fails_is_told_once_and_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import shutil

    for exporter in (Jsonl(), Prometheus()):
        caplog.clear()
        folder = tmp_path / exporter.name
        folder.mkdir()
        exporter.open(str(folder))
        shutil.rmtree(folder)
        for _ in range(3):
            exporter.metrics(samples())
            exporter.emit(EpisodeStarted("e", "a", "t", 0))
        exporter.close()
        assert len(caplog.messages) == 1 and "stops" in caplog.messages[0]


# --- prometheus -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "parse"), [("text", parse_text), ("openmetrics", parse_openmetrics)])
def test_the_official_parser_reads_every_metric_back(form: str, parse: Any) -> None:
    exporter = Prometheus(f"format={form}")
    told = everything()
    exporter.metrics(told)
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    types: dict[str, str] = {}
    for family in parse(exporter.text().decode()):
        types[family.name] = family.type
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    for sample in told:
        labels = dict(sample.labels)
        if sample.kind != "histogram":
            assert found[sample.name, tuple(sorted(labels.items()))] == sample.value
            continue
        if form == "text" or sample.bounds[0] >= 0:
            assert found[f"{sample.name}_count", tuple(sorted(labels.items()))] == sample.count
            assert found[f"{sample.name}_sum", tuple(sorted(labels.items()))] == sample.value
        seen = 0
        for bound, count in zip((*map(repr, sample.bounds), "+Inf"), sample.counts, strict=True):
            seen += count
            assert found[f"{sample.name}_bucket", tuple(sorted({**labels, "le": bound}.items()))] == seen
    assert types["switch_phase_ms"] == "histogram" and types["decision_p95_ms"] == "gauge"
    assert types["switch_abort"] == "counter"
    assert types["budget_denied"] in ("unknown", "untyped")
    exporter.close()


def test_the_file_is_written_whole_and_in_the_end_has_the_last_metrics(tmp_path: Path) -> None:
    exporter = Prometheus()
    exporter.open(str(tmp_path))
    for value in range(5):
        exporter.metrics([MetricSample("decision_p95_ms", "gauge", (("arm", "a"),), float(value), help="h")])
    exporter.close()
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.prom"]
    (family,) = parse_text((tmp_path / "metrics.prom").read_text())
    assert [sample.value for sample in family.samples] == [4.0]


def test_the_port_serves_loopback_only_and_is_given_back() -> None:
    exporter = Prometheus("port=0")
    port = exporter.port
    exporter.metrics(samples())
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        names = {family.name for family in parse_text(answer.read().decode())}
        assert "version=" in answer.headers["Content-Type"]
    assert {"decision_p95_ms", "switch_ms", "budget_denied"} <= names
    with pytest.raises(ConfigError, match=f"cannot serve port {port}"):
        Prometheus(f"port={port}")
    exporter.close()
    exporter.close()
    again = Prometheus(f"port={port}")
    again.close()


@pytest.mark.parametrize("text", ["port=99999", "port=x", "port=-1", "format=xml"])
def test_impossible_options_of_prometheus_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Prometheus(text)


# --- otlp -----------------------------------------------------------------------------------------


def test_a_collector_gets_every_metric_with_its_buckets(collector: Collector) -> None:
    exporter = Otlp(collector.spec)
    told = everything()
    exporter.metrics(told)
    exporter.close()
    request = ExportMetricsServiceRequest.FromString(collector.requests["/v1/metrics"][-1])
    (resource,) = request.resource_metrics
    assert {a.key: a.value.string_value for a in resource.resource.attributes}["service.name"] == "apex-framework"
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    assert set(metrics) == set(METRICS)
    for sample in told:
        metric = metrics[sample.name]
        assert (metric.unit, metric.description) == (sample.unit, sample.help)
        data = getattr(metric, {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}[sample.kind])
        points = [
            p for p in data.data_points if tuple((a.key, a.value.string_value) for a in p.attributes) == sample.labels
        ]
        (point,) = points
        if sample.kind == "histogram":
            assert (tuple(point.explicit_bounds), tuple(point.bucket_counts)) == (sample.bounds, sample.counts)
            assert (point.count, point.sum, point.min, point.max) == (sample.count, sample.value, 3.0, 3.0)
        else:
            assert point.as_double == sample.value
        if sample.kind == "counter":
            assert data.is_monotonic and data.aggregation_temporality == 2


def test_an_episode_is_a_span_with_what_happened_in_it(collector: Collector) -> None:
    exporter = Otlp(collector.spec)
    for event in events():
        exporter.emit(event)
    exporter.emit(EpisodeStarted("e2", "arm", "task", 1))
    exporter.emit(EpisodeFinished("e2", {"success": False, "status": "infrastructure", "reason": "no luck"}))
    exporter.close()
    spans = [
        span
        for body in collector.requests["/v1/traces"]
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for span in resource.scope_spans[0].spans
    ]
    assert [span.name for span in spans] == ["episode e1", "episode e2"]
    first, second = spans
    assert first.trace_id == second.trace_id and first.span_id != second.span_id
    happened = [event.name for event in first.events]
    assert happened[0] == "DecisionTaken" and "CallDenied" in happened and "MessageMoved" not in happened
    assert first.end_time_unix_nano >= first.start_time_unix_nano > 0
    attributes = {a.key: a.value for a in first.attributes}
    assert attributes["apex.arm"].string_value == "arm" and attributes["apex.tokens"].int_value == 70
    assert (second.status.code, second.status.message) == (2, "no luck")


@pytest.mark.parametrize("trouble", ["nobody", "refuses", "silent"])
def test_a_collector_in_trouble_costs_little_and_is_told_once(
    trouble: str, unused_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    collector = {"nobody": None, "refuses": Collector(400), "silent": Collector(200, 3.0)}[trouble]
    spec = collector.spec if collector else f"endpoint=http://127.0.0.1:{unused_port}"
    with caplog.at_level(logging.DEBUG):
        exporter = Otlp(f"{spec};timeout_s=0.3")
        for number in range(200):
            exporter.emit(EpisodeStarted(str(number), "a", "t", 0))
            exporter.emit(EpisodeFinished(str(number), {}))
            exporter.metrics(samples())
        begun = time.monotonic()
        exporter.close()
        assert time.monotonic() - begun < 10, "close is bounded by the time-out"
        exporter.close()
    told = [r.message for r in caplog.records if r.levelno >= logging.WARNING and "urllib3" not in r.name]
    assert len(told) == 1 and told[0].startswith("exporter otlp reaches no collector, and the run goes on without it: ")
    if collector:
        collector.close()


def test_other_users_of_the_sdk_are_heard_as_before(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    exporter = Otlp(collector.spec)
    name = "opentelemetry.exporter.otlp.proto.http.metric_exporter"
    logging.getLogger(name).warning("somebody else's")
    exporter.close()
    assert caplog.messages == ["somebody else's"]
    assert logging.getLogger(name).filters == []
