"""The frozen profiles, and the emulator that draws what they say."""

from __future__ import annotations

import itertools
import random
import shutil
from math import exp
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.benches import profiles
from apex_framework.benches.load import Handler, Lognormal, arrivals, classes, rate
from apex_framework.benches.profiles import SHIPPED, Bursts, quantile, read
from apex_framework.errors import ConfigError, UnknownNameError

FROZEN = "5b8f2c0c27dc592e7f8f250d78ec4751c5c75eb4d84994c84bc241a1984a4882"
"""Of the profiles under which every published figure was measured. Change the file, and old figures mean nothing."""


def test_the_shipped_profiles_are_frozen() -> None:
    assert read("N").sha256 == read("S").sha256 == FROZEN


def test_the_profiles_are_the_specified_ones() -> None:
    normal, stress = read("N"), read("S")
    assert (normal.agents, normal.load, normal.bursts, normal.sick) == (7, 0.3, None, None)
    assert normal.classes == {"final": 0.2, "draft": 0.6, "critic": 0.2}
    assert (normal.handler_ms, stress.handler_ms) == ({"p50": 20, "p95": 80}, {"p50": 50, "p95": 400})
    assert (stress.load, stress.bursts) == (0.9, Bursts(3.0, 200.0, 2000.0))
    assert stress.sick is not None
    assert (stress.sick.agents, stress.sick.share, stress.sick.stuck_ms) == (1, 0.1, 500.0)
    assert stress.throttle is not None


def test_another_file_is_visible_in_every_row(tmp_path: Path) -> None:
    other = tmp_path / "mine.toml"
    shutil.copy(SHIPPED, other)
    assert read("N", other).sha256 == FROZEN
    other.write_text(SHIPPED.read_text().replace("load = 0.3 ", "load = 0.31"))
    rows = list(profiles.run(SimpleNamespace(n=500, profile="N", profile_file=other)))
    assert {row["profile"] for row in rows} == {"N"}
    assert {row["profile_sha256"] for row in rows} == {read("N", other).sha256} != {FROZEN}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("p95 = 80.0", "p95 = 8.0", "p50 below p95"),
        ("load = 0.3 ", "load = -1 ", "above 0"),
        ("load = 0.3 ", "load = true ", "above 0"),
        ("final = 0.2", "final = 0.3", "together 1"),
        ("agents = 7\nload = 0.3 ", "load = 0.3 ", "agents"),
        ("agents = 7", "agents = 7\nagnets = 7", "agnets"),
        ("length_ms = 200.0", "length_ms = 2000.0", "shorter"),
        ("agents = 1 ", "agents = 8 ", "sick"),
        ("[N]", "[N", "not TOML"),
    ],
)
def test_a_bad_profile_is_refused_with_its_fault(tmp_path: Path, old: str, new: str, says: str) -> None:
    other = tmp_path / "mine.toml"
    text = SHIPPED.read_text()
    assert old in text
    other.write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=says):
        read("N", other), read("S", other)


def test_a_missing_file_or_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read("N", tmp_path / "nowhere.toml")
    with pytest.raises(UnknownNameError, match="unknown profile 'Q'"):
        read("Q")


@pytest.mark.parametrize("name", ["N", "S"])
def test_drawn_quantiles_are_within_3_percent_and_virtual_sleep_is_exact(name: str) -> None:
    rows = list(profiles.run(SimpleNamespace(profile=name, n=100_000, seed=1)))
    errors = {(r["contender"], r["metric"]): float(str(r["value"])) for r in rows if "error" in str(r["metric"])}
    assert all(abs(errors["drawn", f"{p} error"]) < 0.03 for p in ("p50", "p95"))
    for p in ("p50", "p95"):
        assert errors["slept in virtual time", f"{p} error"] == pytest.approx(errors["drawn", f"{p} error"], abs=1e-4)


def test_a_wrong_law_is_seen_by_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apex_framework.benches.load.Z95", 1.96)  # planted: the 97.5 % quantile taken for the 95 %
    rows = list(profiles.run(SimpleNamespace(profile="S", n=50_000, seed=1)))
    error = next(r["value"] for r in rows if (r["contender"], r["metric"]) == ("drawn", "p95 error"))
    assert abs(float(str(error))) > 0.03


@given(p50=st.floats(0.1, 1e3), spread=st.floats(1.01, 100))
def test_the_lognormal_has_the_quantiles_it_was_made_from(p50: float, spread: float) -> None:
    law = Lognormal.of(p50, p50 * spread)
    assert exp(law.mu) == pytest.approx(p50)
    assert exp(law.mu + law.sigma * NormalDist().inv_cdf(0.95)) == pytest.approx(p50 * spread)


def test_arrivals_keep_the_mean_rate_with_and_without_bursts() -> None:
    seconds = 2_000.0
    for bursts in (None, Bursts(3.0, 200.0, 2000.0)):
        times = list(arrivals(50.0, seconds, bursts, random.Random(3)))
        assert times == sorted(times)
        assert times[0] >= 0 and times[-1] < seconds
        assert len(times) / seconds == pytest.approx(50.0, rel=0.015)


def test_in_a_burst_the_rate_is_three_times_the_rate_between() -> None:
    times = list(arrivals(50.0, 2_000.0, Bursts(3.0, 200.0, 2000.0), random.Random(4)))
    inside = sum(at % 2.0 < 0.2 for at in times) / 0.2
    outside = sum(at % 2.0 >= 0.2 for at in times) / 1.8
    assert inside / outside == pytest.approx(3.0, rel=0.03)


def test_gaps_of_poisson_arrivals_are_exponential() -> None:
    times = list(arrivals(10.0, 5_000.0, None, random.Random(5)))
    gaps = [b - a for a, b in itertools.pairwise(times)]
    from scipy.stats import kstest

    assert kstest(gaps, "expon", args=(0, 0.1)).pvalue > 0.001


def test_the_same_seed_gives_the_same_arrivals_and_classes() -> None:
    stress = read("S")

    def draw(seed: int) -> tuple[list[float], list[str]]:
        kinds = classes(stress, random.Random(seed))
        return list(arrivals(rate(stress), 20.0, stress.bursts, random.Random(seed))), [next(kinds) for _ in range(50)]

    assert draw(1) == draw(1) != draw(2)


def test_a_sick_agent_is_stuck_one_time_in_ten() -> None:
    stress = read("S")
    healthy, sick = Handler.of(stress, sick=False), Handler.of(stress, sick=True)
    assert healthy.stuck_share == 0.0
    source = random.Random(6)
    mean = sum(sum(sick.draw(source)) for _ in range(100_000)) / 100_000
    assert mean == pytest.approx(healthy.mean + 50.0, rel=0.03)
    assert sick.mean == pytest.approx(healthy.mean + 50.0)


def test_class_shares_are_the_profiles() -> None:
    kinds = classes(read("N"), random.Random(7))
    seen = [next(kinds) for _ in range(50_000)]
    assert seen.count("final") / len(seen) == pytest.approx(0.2, abs=0.01)
    assert seen.count("draft") / len(seen) == pytest.approx(0.6, abs=0.01)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1.0))
def test_the_quantile_is_the_smallest_value_with_that_share_below(values: list[float], share: float) -> None:
    found = quantile(values, share)
    assert found in values
    assert sum(v <= found for v in values) >= share * len(values) - 1e-9
    assert sum(v < found for v in values) < share * len(values) + 1e-9
