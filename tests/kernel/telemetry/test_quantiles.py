"""P² and the t-digest against exact quantiles: arbitrary streams, known distributions, parts put together."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from math import ceil, pi, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.telemetry.p2 import P2
from apex_framework.telemetry.tdigest import TDigest

SHARES = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400)

DISTRIBUTIONS: dict[str, Callable[[random.Random], float]] = {
    "uniform": lambda rng: rng.random(),
    "normal": lambda rng: rng.gauss(0, 1),
    "lognormal": lambda rng: rng.lognormvariate(3, 0.85),
    "exponential": lambda rng: rng.expovariate(1.0),
    "two peaks": lambda rng: rng.gauss(10, 1) if rng.random() < 0.5 else rng.gauss(1000, 5),
    "few values": lambda rng: float(rng.randrange(7)),
}


def rank_error(values: Sequence[float], estimate: float, share: float) -> float:
    """How far, as a share of all values, an estimate is from the place that it should have."""
    ordered = sorted(values)
    low, high = bisect_left(ordered, estimate) / len(ordered), bisect_right(ordered, estimate) / len(ordered)
    return max(low - share, share - high, 0.0)


def bound(share: float, n: int, compression: float = 200.0) -> float:
    """What the digest's docstring promises: twice the width of a centroid at this share, and one value."""
    return 2 * (2 * pi / compression) * sqrt(share * (1 - share)) + 1 / n


def digest_of(values: Sequence[float]) -> TDigest:
    digest = TDigest()
    for value in values:
        digest.add(value)
    return digest


@given(VALUES)
@settings(max_examples=200, deadline=None)
def test_a_digest_of_any_stream_is_within_its_bound(values: list[float]) -> None:
    digest = digest_of(values)
    assert digest.count == len(values)
    for share in SHARES:
        assert rank_error(values, digest.quantile(share), share) <= bound(share, len(values))
    assert (digest.quantile(0.0), digest.quantile(1.0)) == (min(values), max(values))


@given(st.lists(VALUES, min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_a_digest_of_parts_is_within_the_bound_of_the_whole(parts: list[list[float]]) -> None:
    whole = TDigest()
    for part in parts:
        other = digest_of(part)
        whole.merge(other.centroids, other.smallest, other.largest)
    values = [value for part in parts for value in part]
    for share in SHARES:
        assert rank_error(values, whole.quantile(share), share) <= bound(share, len(values))
    assert whole.count == len(values)
    assert (whole.smallest, whole.largest) == (min(values), max(values))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("order", ["drawn", "sorted", "reversed"])
def test_a_digest_of_twenty_thousand_is_small_and_within_its_bound(name: str, order: str) -> None:
    rng = random.Random(name)
    values = [DISTRIBUTIONS[name](rng) for _ in range(20_000)]
    if order != "drawn":
        values.sort(reverse=order == "reversed")
    digest = digest_of(values)
    assert len(digest.centroids) <= 200
    for share in SHARES:
        assert rank_error(values, digest.quantile(share), share) <= bound(share, len(values)), share


def test_up_to_a_few_values_a_digest_is_the_nearest_rank() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    digest = digest_of(values)
    assert [digest.quantile(s) for s in (0.2, 0.21, 0.5, 0.6, 0.95)] == [1.0, 2.0, 3.0, 3.0, 5.0]


def test_a_digest_without_its_size_limit_is_noticed() -> None:
    """The planted bug: a scale that lets a centroid in the middle take everything."""

    class Careless(TDigest):
        def _reach(self, share: float) -> float:
            return min(1.0, share + 20 * (super()._reach(share) - share))

    rng = random.Random(1)
    values = [DISTRIBUTIONS["two peaks"](rng) for _ in range(20_000)]
    careless = Careless()
    for value in values:
        careless.add(value)
    assert any(rank_error(values, careless.quantile(s), s) > bound(s, len(values)) for s in SHARES)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("name", ["uniform", "normal", "lognormal", "exponential"])
def test_p2_is_within_one_percent_in_rank_on_smooth_distributions(name: str, share: float) -> None:
    rng = random.Random(f"{name} {share}")
    values = [DISTRIBUTIONS[name](rng) for _ in range(20_000)]
    estimate = P2(share)
    for value in values:
        estimate.add(value)
    assert rank_error(values, estimate.value, share) <= 0.01


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), st.sampled_from([0.05, 0.5, 0.95, 0.99]))
def test_p2_of_up_to_five_values_is_exact(values: list[float], share: float) -> None:
    estimate = P2(share)
    for value in values:
        estimate.add(value)
    assert estimate.value == sorted(values)[max(0, ceil(share * len(values)) - 1)]


@given(VALUES, st.sampled_from([0.05, 0.5, 0.95]))
def test_p2_stays_among_the_values(values: list[float], share: float) -> None:
    estimate = P2(share)
    for value in values:
        estimate.add(value)
    assert min(values) <= estimate.value <= max(values)
    assert estimate.count == len(values)


def test_impossible_values_and_shares_are_refused() -> None:
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite"):
            TDigest().add(wrong)
        with pytest.raises(ValueError, match="finite"):
            P2(0.5).add(wrong)
    with pytest.raises(ValueError, match="no values"):
        TDigest().quantile(0.5)
    with pytest.raises(ValueError, match="no values"):
        _ = P2(0.5).value
    with pytest.raises(ValueError, match="between 0 and 1"):
        P2(1.0)
    with pytest.raises(ValueError, match="no share"):
        digest_of([1.0]).quantile(1.1)
