"""Exporter: carries events and metrics out of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..events import Event


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One metric at one moment, for one set of labels; counters and histograms count from the beginning of the run."""

    name: str
    kind: str
    """``counter``, ``gauge`` or ``histogram``."""
    labels: tuple[tuple[str, str], ...] = ()
    """Label and value, in the order in which the metric declares them."""
    value: float = 0.0
    """Of a counter or gauge; of a histogram the sum of all values."""
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, inclusive and increasing; the last bucket, above all of them, has none."""
    counts: tuple[int, ...] = ()
    """Values per bucket, one more than there are bounds; not cumulative."""
    unit: str = ""
    help: str = ""
    """What it measures, in a line."""
    smallest: float = 0.0
    largest: float = 0.0
    """Extremes of a histogram's values; 0 when it has none."""
    digest: tuple[tuple[float, float], ...] = ()
    """Mean and weight of the centroids of a histogram's t-digest, from which quantiles are read."""

    @property
    def count(self) -> int:
        """Number of values in a histogram."""
        return sum(self.counts)


@runtime_checkable
class Exporter(Protocol):
    """Takes what happened; must not block and must not raise for want of a listener."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    def emit(self, event: Event) -> None:
        """Take one event."""
        ...

    def close(self) -> None:
        """Flush and release; idempotent."""
        ...


@runtime_checkable
class TakesMetrics(Protocol):
    """Ability of an exporter: to be shown the metrics of the run after every episode, and once more at the end."""

    def metrics(self, samples: Sequence[MetricSample]) -> None:
        """Take all metrics as they are now, in place of the last ones; must neither block nor raise."""
        ...


@runtime_checkable
class OpensInRun(Protocol):
    """Ability of an exporter: to be told, before the first event, which folder it may write into."""

    def open(self, folder: str) -> None:
        """Keep ``folder``, which exists and is not part of the run's manifest. Raises OSError or ApexError."""
        ...


@runtime_checkable
class WritesFiles(Protocol):
    """Ability of an exporter: to say which files it will write, so that no two of a run write the same one."""

    def files(self, folder: str) -> Sequence[str]:
        """Paths of the files that it writes when it is opened in ``folder``. Asked before ``open``."""
        ...
