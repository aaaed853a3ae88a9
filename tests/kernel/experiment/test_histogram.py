"""Fixed buckets: counts are exact, quantiles are upper bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.telemetry.histogram import LATENCY_MS, Histogram


@given(st.lists(st.floats(0, 10_000), min_size=1), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_quantile_is_an_upper_bound_at_most_one_bucket_away(values: list[float], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    found = histogram.quantile(share)
    assert histogram.count == len(values)
    assert exact <= found <= max(values)
    below = max((bound for bound in LATENCY_MS if bound < found), default=0.0)
    assert exact >= below or found == max(values)


def test_empty_and_impossible_histograms() -> None:
    assert Histogram().quantile(0.95) == 0.0
    with pytest.raises(ValueError, match="increasing"):
        Histogram((1.0, 1.0))
