"""One broken exporter per check of the kit: each fails exactly that one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from ...events import CallDenied, EpisodeFinished, Event
from ...interfaces import Exporter, MetricSample


class Sound:
    """An exporter with nothing wrong: it counts."""

    name = "sound"

    def __init__(self) -> None:
        self.count = 0
        self.closed = False
        self.mean = 0.0

    def emit(self, event: Event) -> None:
        """One more."""
        self.count += 1

    def open(self, folder: str) -> None:
        """Where it would write."""

    def metrics(self, samples: Sequence[MetricSample]) -> None:
        """One more."""
        self.count += 1

    def close(self) -> None:
        """Nothing."""


class Nameless(Sound):
    """Has an empty name."""

    name = ""


class ChokesOnDenials(Sound):
    """Expects tokens in every event."""

    def emit(self, event: Event) -> None:
        """Fails for denials."""
        if isinstance(event, CallDenied):
            raise AttributeError("tokens_in")


class WaitsForAListener(Sound):
    """Sends synchronously."""

    def emit(self, event: Event) -> None:
        """Waits."""
        time.sleep(0.06)


class AddsATimestamp(Sound):
    """Writes into the record it is told of."""

    def emit(self, event: Event) -> None:
        """Adds a key."""
        if isinstance(event, EpisodeFinished):
            cast("dict[str, object]", event.record)["exported"] = True


class WritesBeside(Sound):
    """Writes beside the folder that it was told."""

    def open(self, folder: str) -> None:
        """One folder too high."""
        (Path(folder).parent / "mine.txt").write_text("mine")


class ExpectsValues(Sound):
    """Divides by the number of values of every histogram."""

    def metrics(self, samples: Sequence[MetricSample]) -> None:
        """Fails for one without values."""
        for sample in samples:
            if sample.kind == "histogram":
                self.mean = sample.value / sample.count


class PushesSynchronously(Sound):
    """Sends the metrics and waits for the answer."""

    def metrics(self, samples: Sequence[MetricSample]) -> None:
        """Waits."""
        time.sleep(0.06)


class ClosesOnce(Sound):
    """Cannot be closed twice."""

    def close(self) -> None:
        """Or fails."""
        if self.closed:
            raise ValueError("already closed")
        self.closed = True


BROKEN: dict[str, Callable[[], Exporter]] = {
    "has_a_name": Nameless,
    "takes_every_event": ChokesOnDenials,
    "does_not_block": WaitsForAListener,
    "leaves_events_alone": AddsATimestamp,
    "opens_in_a_folder": WritesBeside,
    "takes_every_metric": ExpectsValues,
    "metrics_do_not_block": PushesSynchronously,
    "close_is_idempotent": ClosesOnce,
}
"""Check -> an exporter that fails it."""
