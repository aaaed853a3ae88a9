"""Conformance kit of exporters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ..events import (
    CallDenied,
    CallSettled,
    DecisionTaken,
    EpisodeFinished,
    EpisodeStarted,
    Event,
    MessageMoved,
    RunFinished,
    SwitchFinished,
    TopologyChanged,
)
from ..interfaces import Exporter
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
        EpisodeFinished("e1", {"success": True, "tokens": 70}),
        RunFinished("r1", "runs/r1", 1),
    )
