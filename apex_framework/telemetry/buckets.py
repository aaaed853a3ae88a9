"""Buckets of histograms: the defaults, in one place, and the setting ``hist_buckets``, which replaces them by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from math import isfinite

from ..errors import ConfigError
from .histogram import LATENCY_MS, TOKENS
from .metrics import METRICS, MetricSpec

Buckets = Mapping[str, tuple[float, ...]]
"""Metric, or unit for all metrics in it, -> upper bounds."""

DEFAULTS: Buckets = {
    "ms": LATENCY_MS,
    "tokens": TOKENS,
    "percent": (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0),
    "token_est_bias_pct": (-50.0, -20.0, -10.0, -5.0, -2.0, -1.0, 0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0),
    "share": (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0),
    "messages": (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0),
}
"""Unit, or metric that needs its own, -> upper bounds, where ``hist_buckets`` says nothing."""
MOST = 100
"""Buckets that a histogram may have."""


def checked_buckets(
    table: Mapping[str, object], places: Mapping[str, str] | None = None
) -> dict[str, tuple[float, ...]]:
    """Buckets as they were written in a configuration. ``places`` names for each where it stands.

    Raises ConfigError for a name that is neither a histogram's nor a unit's, and for bounds that are no list of
    increasing finite numbers.
    """
    known = sorted({*DEFAULTS, *(name for name, spec in METRICS.items() if spec.kind == "histogram")})
    checked: dict[str, tuple[float, ...]] = {}
    for name, bounds in table.items():
        place = (places or {}).get(name, "hist_buckets")
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            remedy = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise ConfigError(f"{place}: {name!r} is neither a histogram nor a unit", remedy)
        checked[name] = _bounds(name, bounds, place)
    return checked


def bounds_of(spec: MetricSpec, buckets: Buckets) -> tuple[float, ...]:
    """The bounds in force for a histogram: its own, its unit's, or the defaults."""
    return buckets.get(spec.name) or buckets.get(spec.unit) or DEFAULTS.get(spec.name) or DEFAULTS[spec.unit]


def _bounds(name: str, bounds: object, place: str) -> tuple[float, ...]:
    remedy = "give increasing numbers, as in [1, 2, 5, 10]"
    if not isinstance(bounds, list | tuple) or not bounds:
        raise ConfigError(f"{place}: the buckets of {name!r} are no list of numbers", remedy)
    if len(bounds) > MOST:
        raise ConfigError(f"{place}: {name!r} has {len(bounds)} buckets", f"give at most {MOST}")
    for bound in bounds:
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not isfinite(bound):
            raise ConfigError(f"{place}: {bound!r} is no bound of {name!r}", remedy)
    numbers = tuple(float(bound) for bound in bounds)
    if list(numbers) != sorted(set(numbers)):
        raise ConfigError(f"{place}: the buckets of {name!r} do not increase", remedy)
    return numbers
