"""Conformance kit of exporters."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..events import (
    CallDenied,
    CallSettled,
    DecisionTaken,
    EpisodeFinished,
    EpisodeStarted,
    Event,
    HealthPinned,
    LoopStalled,
    MemoryPressure,
    MessageMoved,
    ModelLoaded,
    ModelUnloaded,
    PressureChanged,
    RunFinished,
    SwitchFinished,
    ToolUsed,
    TopologyChanged,
    TopologyProbed,
)
from ..interfaces import Exporter, MetricSample, OpensInRun, TakesMetrics
from .conformance import run_checks

KIND: Final = "exporter"
LIMIT_S: Final = 0.05
"""The fastest of a few emits must take less: an exporter that waits for a listener is slower every time."""

Make = Callable[[], Exporter]


def check_exporter(make: Make) -> None:
    """Run every check on fresh exporters. Raises ConformanceError."""
    run_checks(
        KIND,
        {
            "has_a_name": lambda: check_has_a_name(make),
            "takes_every_event": lambda: check_takes_every_event(make),
            "does_not_block": lambda: check_does_not_block(make),
            "leaves_events_alone": lambda: check_leaves_events_alone(make),
            "opens_in_a_folder": lambda: check_opens_in_a_folder(make),
            "takes_every_metric": lambda: check_takes_every_metric(make),
            "metrics_do_not_block": lambda: check_metrics_do_not_block(make),
            "close_is_idempotent": lambda: check_close_is_idempotent(make),
        },
    )


def check_has_a_name(make: Make) -> None:
    """It says what it is."""
    exporter = make()
    name = exporter.name
    exporter.close()
    assert isinstance(name, str) and name, f"name is {name!r}"


def check_takes_every_event(make: Make) -> None:
    """No event makes it raise, listened to or not."""
    exporter = make()
    try:
        for event in events():
            exporter.emit(event)
    finally:
        exporter.close()


def check_does_not_block(make: Make) -> None:
    """It returns at once; slow work is for later."""
    exporter = make()
    started = EpisodeStarted("e1", "arm", "task", 0)
    times: list[float] = []
    for _ in range(5):
        before = time.perf_counter()
        exporter.emit(started)
        times.append(time.perf_counter() - before)
    exporter.close()
    assert min(times) < LIMIT_S, f"an emit takes {min(times):.3f} s"


def check_leaves_events_alone(make: Make) -> None:
    """Observers after it see the same event: its records are not written to."""
    exporter = make()
    told = [e for e in events() if isinstance(e, EpisodeFinished)]
    for event in told:
        exporter.emit(event)
    exporter.close()
    assert told == [e for e in events() if isinstance(e, EpisodeFinished)], "an event was changed"


def check_opens_in_a_folder(make: Make) -> None:
    """Where it can be told a folder, it writes into that one, and only there. Others pass."""
    exporter = make()
    if not isinstance(exporter, OpensInRun):
        exporter.close()
        return
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "export"
        folder.mkdir()
        exporter.open(str(folder))
        exporter.emit(EpisodeStarted("e1", "arm", "task", 0))
        if isinstance(exporter, TakesMetrics):
            exporter.metrics(samples()[:1])
        exporter.close()
        assert sorted(Path(parent).iterdir()) == [folder], (
            f"it wrote beside its folder: {sorted(Path(parent).iterdir())}"
        )


def check_takes_every_metric(make: Make) -> None:
    """Where it takes metrics: counters, gauges, histograms, none at all, one without values, and negative ones."""
    exporter = make()
    try:
        if isinstance(exporter, TakesMetrics):
            for some in (samples(), (), samples()[:1]):
                exporter.metrics(some)
    finally:
        exporter.close()


def check_metrics_do_not_block(make: Make) -> None:
    """Where it takes metrics it returns at once."""
    exporter = make()
    times: list[float] = []
    if isinstance(exporter, TakesMetrics):
        for _ in range(5):
            before = time.perf_counter()
            exporter.metrics(samples()[:5])
            times.append(time.perf_counter() - before)
    exporter.close()
    assert min(times, default=0.0) < LIMIT_S, f"taking metrics takes {min(times):.3f} s"


def check_close_is_idempotent(make: Make) -> None:
    """Closing twice is closing once."""
    exporter = make()
    exporter.close()
    exporter.close()


def events() -> tuple[Event, ...]:
    """One event of every type; equal at every call."""
    return (
        EpisodeStarted("e1", "arm", "task", 0),
        MessageMoved("e1", "m1", "routed", "a", "a", "b", "b", 0, 0.5, size=10),
        DecisionTaken("e1", 0, "", "star", 1.0, 0.0, {"star": 0.5}, (0.0, 1.0), 0.1),
        SwitchFinished("e1", 3, "star", "flat", True, 1, phase_ms={"quiesce": 1.0}),
        SwitchFinished("e1", 4, "flat", "chain", False, 1, reason="deadline"),
        TopologyChanged("e1", "star", "flat", 1),
        CallSettled("e1", "a", "coder", "repair", "ok", 100, 50, 20),
        CallDenied("e1", "a", "coder", "repair", 100, {"episode": "tok_headroom"}, {"episode": 5}),
        ToolUsed("e1", "a", "coder", "fs.read", False, "not_found", 3),
        TopologyProbed("e1", "flat", False, 2.5, {"b": "stale"}),
        HealthPinned("e1", True, "chain", "controller p95 12 ms"),
        PressureChanged("e1", "shed", "b", 0.9),
        LoopStalled("e1", "b", 120.0, "stack"),
        MemoryPressure("e1", "critical", 0.04, 640, 16_000),
        ModelLoaded("e1", "coder", 900.0, 10.0, 1),
        ModelUnloaded("e1", "critic", "rotation", 0, 1),
        EpisodeFinished("e1", {"success": True, "tokens": 70}),
        RunFinished("r1", "runs/r1", 1),
    )


def samples() -> tuple[MetricSample, ...]:
    """Metrics of every kind; equal at every call."""
    arm = ("arm", 'one "arm"')
    bounds = (-1.0, 0.0, 2.5)
    return (
        MetricSample("episodes_total", "counter", (arm, ("status", "finished")), 3.0, unit="episodes", help="Ends."),
        MetricSample("budget_denied", "counter", (arm, ("role", "a\\b\nc"), ("reason", "")), 1.0),
        MetricSample("decision_p95_ms", "gauge", (arm,), 0.25, unit="ms"),
        MetricSample("token_est_bias_pct", "histogram", (arm,), -1.5, bounds, (1, 0, 1, 0), "percent", "", -2.0, 0.5),
        MetricSample("switch_ms", "histogram", (arm,), 9.0, (1.0, 2.0), (0, 0, 1), "ms", "", 9.0, 9.0, ((9.0, 1.0),)),
        MetricSample("tool_ms", "histogram", (arm, ("tool", "x")), 0.0, (1.0,), (0, 0), "ms"),
    )
