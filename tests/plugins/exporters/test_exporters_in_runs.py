"""Exporters named in the settings really get what happens in ``apex run``, and cannot harm it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from apex_framework.cli import boundary
from apex_framework.cli.context import Context
from apex_framework.errors import ExecutorError
from apex_framework.events import Event
from apex_framework.experiment.manifest import verify_manifest
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import EpisodeJob, EpisodeResult, MetricSample
from apex_framework.plugins import load_plugins

text_string_to_metric_families = pytest.importorskip(
    "prometheus_client.parser", reason="needs the extra [telemetry]"
).text_string_to_metric_families
pytestmark = pytest.mark.slow
ONE = ("--episodes", "1", "--no-baselines", "--controller", "random_switch:1.0", "--workers", "1")


class Keeps:
    """Keeps what it gets."""

    name = "keeps"
    made: Keeps

    def __init__(self) -> None:
        Keeps.made = self
        self.events: list[Event] = []
        self.looks: list[Sequence[MetricSample]] = []
        self.folder, self.closed = "", 0

    def open(self, folder: str) -> None:
        self.folder = folder

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def metrics(self, samples: Sequence[MetricSample]) -> None:
        self.looks.append(samples)

    def close(self) -> None:
        self.closed += 1


class Chokes(Keeps):
    """Fails at everything."""

    name = "chokes"

    def emit(self, event: Event) -> None:
        raise RuntimeError("no emit")


class Nowhere:
    """An executor that has no machine."""

    name = "nowhere"

    def run(self, jobs: Iterable[EpisodeJob], work: Any, *, workers: int) -> Iterator[EpisodeResult]:
        next(iter(jobs))
        raise ExecutorError("no machine is there", "add one")


class Mine(ApexSpec):
    """A stranger's exporters, and an executor."""

    @hookimpl
    def apex_exporters(self, add: Any) -> None:
        add("keeps", Keeps)
        add("chokes", Chokes)

    @hookimpl
    def apex_executors(self, add: Any) -> None:
        add("nowhere", Nowhere)


Apex = Callable[..., tuple[int, str]]


@pytest.fixture
def apex(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Apex:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    class Mined(Context):
        def load_plugins(self) -> Any:
            if self._plugins is None:
                self._plugins = load_plugins(plugins={"mine": Mine()})
            return self._plugins

    monkeypatch.setattr("apex_framework.cli.program.Context", Mined)

    def run(*arguments: str, **environ: str) -> tuple[int, str]:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        status = boundary.run(arguments)
        return status, capsys.readouterr().err

    return run


def test_a_named_exporter_gets_events_metrics_a_folder_and_an_end(apex: Apex) -> None:
    status, err = apex("run", *ONE, "--out", "r", APEX_EXPORTERS="keeps,jsonl,prometheus")
    assert status == 0, err
    kept = Keeps.made
    kinds = [type(event).__name__ for event in kept.events]
    assert kinds[0] == "EpisodeStarted" and kinds[-2:] == ["EpisodeFinished", "RunFinished"]
    assert {"DecisionTaken", "SwitchFinished", "CallSettled", "ToolUsed"} <= set(kinds)
    assert kept.folder == str(Path("r") / "export") and kept.closed == 1
    names = {sample.name for sample in kept.looks[-1]}
    assert {"decision_ms", "switch_phase_ms", "agent_tokens_used", "episodes_total", "lane_depth"} <= names
    assert all(sample.labels[0] == ("arm", "random_switch:1.0") for sample in kept.looks[-1])
    lines = [json.loads(line)["event"] for line in Path("r/export/events.jsonl").read_text().splitlines()]
    assert lines == kinds
    told = {json.loads(line)["metric"] for line in Path("r/export/metrics.jsonl").read_text().splitlines()}
    families = {family.name for family in text_string_to_metric_families(Path("r/export/metrics.prom").read_text())}
    assert names == told and "switch_phase_ms" in families
    verify_manifest(Path("r"))


def test_exporters_see_the_same_metrics_as_the_run_folder(apex: Apex) -> None:
    assert apex("run", *ONE, "--out", "r", APEX_EXPORTERS="keeps")[0] == 0
    folder = [json.loads(line) for line in Path("r/metrics/metrics.jsonl").read_text().splitlines()]
    seen = {(s.name, s.labels): s.value for s in Keeps.made.looks[-1]}
    assert {(row["metric"], tuple(row["labels"].items())): row.get("value", row.get("sum")) for row in folder} == seen


def test_an_exporter_that_fails_is_told_once_and_the_run_goes_on(apex: Apex, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        status, _ = apex("run", *ONE, "--out", "r", APEX_EXPORTERS="keeps,chokes")
    assert status == 0 and Path("r/DONE").exists()
    assert Keeps.made.closed == 1
    assert caplog.messages == ["exporter chokes failed and is left out from here on: RuntimeError('no emit')"]


def test_a_collector_that_is_not_there_neither_fails_nor_stops_a_run(
    apex: Apex, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        status, _ = apex("run", *ONE, "--out", "r", APEX_EXPORTERS="otlp:endpoint=http://127.0.0.1:9;timeout_s=0.3")
    assert status == 0 and Path("r/DONE").exists()
    told = [m for m in caplog.messages if "collector" in m]
    assert len(told) == 1


@pytest.mark.parametrize(
    ("exporters", "status", "cause", "remedy"),
    [
        ("prometheuss", 2, "unknown exporter 'prometheuss'", "did you mean 'prometheus'?"),
        ("prometheus:prt=1", 2, "exporter 'prometheus' takes no option 'prt'", "did you mean 'port'?"),
        ("jsonl:folder=/proc/nowhere", 3, "error[E0302]: cannot write /proc/nowhere: ", "choose another folder="),
        ("prometheus:textfile=/proc/no/m.prom", 3, "E0302]: cannot write /proc/no: ", "choose another textfile="),
        ("jsonl,jsonl", 2, "exporters jsonl and jsonl both write r/export/events.jsonl", "another folder="),
        (
            "jsonl:folder=x,jsonl:folder=./x",
            2,
            "exporters jsonl and jsonl both write x/events.jsonl",
            "another folder=",
        ),
        ("prometheus:textfile=m,prometheus:textfile=m", 2, "both write m", "another folder= or file"),
        ("keeps,prometheus,prometheus", 2, "both write r/export/metrics.prom", "another folder= or file"),
        ("jsonl,prometheus:textfile=/proc/no/m.prom", 3, "cannot write /proc/no", "choose another textfile="),
    ],
)
def test_a_wrong_exporter_is_one_line_and_leaves_nothing_behind(
    apex: Apex, exporters: str, status: int, cause: str, remedy: str
) -> None:
    got, err = apex("run", *ONE, "--out", "r", APEX_EXPORTERS=exporters)
    assert got == status, err
    assert cause in err and remedy in err and "Traceback" not in err
    assert not Path("r").exists()


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [(("--budget", "210"), "pays for no call"), (("--set", "executor=nowhere"), "no machine is there")],
)
def test_a_run_that_fails_before_its_first_result_leaves_nothing_behind(
    apex: Apex, arguments: tuple[str, ...], cause: str
) -> None:
    _, err = apex("run", *ONE, "--out", "r", *arguments, APEX_EXPORTERS="keeps,jsonl")
    assert cause in err
    assert not Path("r").exists() and Keeps.made.closed == 1


@pytest.mark.parametrize(("name", "module"), [("prometheus", "prometheus_client"), ("otlp", "opentelemetry")])
def test_a_missing_extra_is_named_with_the_line_that_installs_it(
    apex: Apex, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    for loaded in [m for m in sys.modules if m.partition(".")[0] == module or m.startswith("apex_exporters.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    status, err = apex("run", *ONE, "--out", "r", APEX_EXPORTERS=name)
    assert status == 3
    assert f"exporter '{name}' needs the extra [telemetry]" in err
    assert "pip install 'apex-framework[telemetry]'" in err
    assert not Path("r").exists()


def test_buckets_of_a_file_are_those_of_the_run_and_of_a_resumed_one(apex: Apex) -> None:
    Path("buckets.yaml").write_text("decision_ms: [1, 10]\nmessages: [0, 1]\n")
    assert apex("run", *ONE, "--out", "r", APEX_HIST_BUCKETS="buckets.yaml")[0] == 0
    rows = [json.loads(line) for line in Path("r/metrics/metrics.jsonl").read_text().splitlines()]
    bounds = {row["metric"]: row.get("bounds") for row in rows}
    assert (bounds["decision_ms"], bounds["lane_depth"]) == ([1.0, 10.0], [0.0, 1.0])
    assert apex("slo", "r")[0] == 0, "and they are those of what is made again"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("decison_ms: [1]", "buckets.yaml:1: 'decison_ms' is neither a histogram nor a unit"),
        ("\nms: [2, 1]", "buckets.yaml:2: the buckets of 'ms' do not increase"),
        ("- 1", "buckets.yaml: a table of names and values is needed"),
        (None, "cannot read buckets.yaml"),
    ],
)
def test_wrong_buckets_are_one_line(apex: Apex, text: str | None, cause: str) -> None:
    if text is not None:
        Path("buckets.yaml").write_text(text)
    status, err = apex("run", *ONE, "--out", "r", APEX_HIST_BUCKETS="buckets.yaml")
    assert status == 2 and cause in err.splitlines()[0] and len(err.splitlines()) <= 2
    assert not Path("r").exists()
