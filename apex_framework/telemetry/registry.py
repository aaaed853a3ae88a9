"""The registry: counters, gauges and histograms by name and labels; it can be looked at, written down, and merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import ArtifactError, ConfigError, UnknownNameError
from ..interfaces.exporter import MetricSample
from .buckets import Buckets, bounds_of
from .histogram import Histogram
from .metrics import METRICS, MetricSpec
from .tdigest import TDigest

SERIES = 500
"""Sets of labels that one metric may have; what comes after them is counted under ``other``."""
OTHER = "other"
TOGETHER = 1_000


class Counter:
    """Only grows, but for ``mirror``."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, by: float = 1.0) -> None:
        """Count. Raises ValueError for a negative amount."""
        if by < 0:
            raise ValueError(f"a counter does not go back by {-by}")
        self.value += by

    def mirror(self, total: float) -> None:
        """Stand where somebody else's counter stands, which was polled."""
        self.value = total


class Gauge:
    """Is what it was last set to; ``None`` before that."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float | None = None

    def set(self, value: float) -> None:
        """Be this from now on."""
        self.value = value


class Distribution:
    """Fixed buckets for whoever adds them up, and a t-digest for whoever asks for quantiles.

    Values are put into both a thousand at a time, or when somebody looks.
    """

    __slots__ = ("_digest", "_histogram", "_waiting")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._histogram = Histogram(bounds)
        self._digest = TDigest()
        self._waiting: list[float] = []

    @property
    def histogram(self) -> Histogram:
        """The buckets, with all values."""
        self._settle()
        return self._histogram

    @property
    def digest(self) -> TDigest:
        """The digest, with all values."""
        self._settle()
        return self._digest

    def observe(self, value: float) -> None:
        """Take a value. Raises ValueError unless it is finite."""
        if value - value != 0.0:
            raise ValueError(f"{value} is not finite")
        self._waiting.append(value)
        if len(self._waiting) >= TOGETHER:
            self._settle()

    def _settle(self) -> None:
        for value in self._waiting:
            self._histogram.add(value)
            self._digest.add(value)
        self._waiting.clear()


Labels = tuple[tuple[str, str], ...]


class Registry:
    """Holds series of declared metrics. ``common`` labels stand in front of every sample's own.

    Raises ConfigError for buckets that fit no metric when a series is first asked for.
    """

    def __init__(
        self,
        *,
        buckets: Buckets | None = None,
        common: Mapping[str, str] | None = None,
        metrics: Mapping[str, MetricSpec] = METRICS,
    ) -> None:
        self._specs = metrics
        self._buckets: Buckets = buckets or {}
        self._common: Labels = tuple((common or {}).items())
        self._series: dict[str, dict[Labels, Counter | Gauge | Distribution]] = {}
        self._known: dict[tuple[str, ...], Counter | Gauge | Distribution] = {}
        """Series by kind, name and labels as they were last asked for: a short way to them."""

    def counter(self, name: str, **labels: str) -> Counter:
        """The counter of this name and these labels. Raises UnknownNameError, ValueError for other labels."""
        found = self._find(name, "counter", labels)
        assert isinstance(found, Counter)
        return found

    def gauge(self, name: str, **labels: str) -> Gauge:
        """The gauge of this name and these labels. Raises UnknownNameError, ValueError for other labels."""
        found = self._find(name, "gauge", labels)
        assert isinstance(found, Gauge)
        return found

    def histogram(self, name: str, **labels: str) -> Distribution:
        """The histogram of this name and these labels. Raises UnknownNameError, ValueError for other labels."""
        found = self._find(name, "histogram", labels)
        assert isinstance(found, Distribution)
        return found

    def snapshot(self) -> tuple[MetricSample, ...]:
        """Everything as it is now, by name and labels."""
        found = []
        for name in sorted(self._series):
            spec = self._specs[name]
            for labels, series in sorted(self._series[name].items()):
                if not (isinstance(series, Gauge) and series.value is None):
                    found.append(_sample(spec, (*self._common, *labels), series))
        return tuple(found)

    def merge(self, samples: Iterable[MetricSample]) -> None:
        """Add what another registry counted: counters and histograms add up, gauges as their declaration says.

        Common labels of this registry are left out of the others' labels. Raises UnknownNameError, and ConfigError for
        a histogram with other buckets.
        """
        mine = dict(self._common)
        for sample in samples:
            labels = {key: value for key, value in sample.labels if key not in mine}
            series = self._find(sample.name, sample.kind, labels)
            if isinstance(series, Counter):
                series.value += sample.value
            elif isinstance(series, Gauge):
                keep = series.value is not None and self._specs[sample.name].merge == "max"
                series.value = max(series.value or 0.0, sample.value) if keep else sample.value
            else:
                self._merge_histogram(series, sample)

    def _merge_histogram(self, series: Distribution, sample: MetricSample) -> None:
        other = Histogram(sample.bounds)
        other.counts, other.total = list(sample.counts), sample.value
        other.smallest, other.largest = sample.smallest, sample.largest
        try:
            series.histogram.merge(other)
        except ValueError as error:
            raise ConfigError(f"{sample.name}: {error}", "use the same hist_buckets for all parts of a run") from error
        series.digest.merge(sample.digest, sample.smallest, sample.largest)

    def _find(self, name: str, kind: str, labels: Mapping[str, str]) -> Counter | Gauge | Distribution:
        short = (kind, name, *labels, *labels.values())
        if (known := self._known.get(short)) is not None:
            return known
        spec = self._specs.get(name)
        if spec is None:
            raise UnknownNameError("metric", name, self._specs)
        if spec.kind != kind or set(labels) != set(spec.labels):
            raise ValueError(f"{name} is a {spec.kind} with labels {spec.labels}, not a {kind} with {tuple(labels)}")
        key = tuple((label, labels[label]) for label in spec.labels)
        series = self._series.setdefault(name, {})
        found = series.get(key)
        if found is None:
            if len(series) >= SERIES:
                key = tuple((label, OTHER) for label in spec.labels)
            found = series.get(key) or series.setdefault(key, self._made(spec))
        if len(self._known) < SERIES * len(self._specs):
            self._known[short] = found
        return found

    def _made(self, spec: MetricSpec) -> Counter | Gauge | Distribution:
        if spec.kind == "counter":
            return Counter()
        return Gauge() if spec.kind == "gauge" else Distribution(bounds_of(spec, self._buckets))


def _sample(spec: MetricSpec, labels: Labels, series: Counter | Gauge | Distribution) -> MetricSample:
    if not isinstance(series, Distribution):
        return MetricSample(spec.name, spec.kind, labels, series.value or 0.0, unit=spec.unit, help=spec.help)
    histogram = series.histogram
    return MetricSample(
        spec.name,
        spec.kind,
        labels,
        histogram.total,
        histogram.bounds,
        tuple(histogram.counts),
        spec.unit,
        spec.help,
        histogram.smallest,
        histogram.largest,
        series.digest.centroids,
    )


def quantile(sample: MetricSample, share: float) -> float:
    """A quantile of a histogram's sample, from its digest. Raises ValueError when it has no values."""
    digest = TDigest()
    digest.merge(sample.digest, sample.smallest, sample.largest)
    return digest.quantile(share)


def to_row(sample: MetricSample, *, quantiles: bool = True) -> dict[str, Any]:
    """A sample as one line of JSONL: a histogram with its bins, its digest, and the usual quantiles made of it."""
    row: dict[str, Any] = {
        "metric": sample.name,
        "kind": sample.kind,
        "unit": sample.unit,
        "labels": dict(sample.labels),
    }
    if sample.kind != "histogram":
        return {**row, "value": sample.value}
    row |= {"count": sample.count, "sum": sample.value, "min": sample.smallest, "max": sample.largest}
    if sample.count and quantiles:
        row |= {f"p{round(100 * share)}": quantile(sample, share) for share in (0.5, 0.95, 0.99)}
    return row | {
        "bounds": list(sample.bounds),
        "counts": list(sample.counts),
        "digest": [list(centroid) for centroid in sample.digest],
    }


def from_row(row: Mapping[str, Any], place: str = "a line of metrics") -> MetricSample:
    """The inverse of ``to_row``. Raises ArtifactError, with the place, for anything that is no such line."""
    try:
        spec = METRICS[row["metric"]]
        labels = tuple((str(key), str(value)) for key, value in row["labels"].items())
        if row["kind"] != spec.kind:
            raise ValueError(f"{spec.name} is a {spec.kind}")
        if spec.kind != "histogram":
            return MetricSample(spec.name, spec.kind, labels, float(row["value"]), unit=spec.unit, help=spec.help)
        bounds, counts = tuple(map(float, row["bounds"])), tuple(map(int, row["counts"]))
        if len(counts) != len(bounds) + 1 or min(counts) < 0 or list(bounds) != sorted(set(bounds)):
            raise ValueError("bounds and counts do not fit")
        digest = tuple((float(mean), float(weight)) for mean, weight in row["digest"])
        return MetricSample(
            spec.name,
            spec.kind,
            labels,
            float(row["sum"]),
            bounds,
            counts,
            spec.unit,
            spec.help,
            float(row["min"]),
            float(row["max"]),
            digest,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(f"{place} is no metric: {error}", "restore the file or start a new run") from error
