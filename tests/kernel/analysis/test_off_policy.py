"""Off-policy value: worked examples, unbiasedness by simulation, and what is said when the log does not cover the target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.analysis import LoggedDecision, LoggedEpisode, off_policy_value
from apex_framework.benches.statistics import BANDIT_VALUE, bandit_log
from apex_framework.errors import NotComparableError


def one(action: str, propensity: float, target: dict[str, float], outcome: float, n: int) -> LoggedEpisode:
    return LoggedEpisode(f"t{n}", f"m{n}", outcome, (LoggedDecision(action, propensity, target),))


def test_a_bandit_by_hand() -> None:
    # Logged a with 0.8, b with 0.2; the target always plays b, which was rewarded once in two.
    log = [one("a", 0.8, {"b": 1.0}, 1.0, i) for i in range(8)]
    log += [one("b", 0.2, {"b": 1.0}, float(i), 8 + i) for i in range(2)]
    found = off_policy_value(log)
    assert found.estimate("ips").value == pytest.approx((0 * 8 + 5 * 0 + 5 * 1) / 10)
    assert found.estimate("snips").value == pytest.approx(0.5)
    assert found.logged_value == pytest.approx(0.9)
    assert (found.overlap.weighted, found.overlap.effective, found.overlap.largest_weight) == (2, 2.0, 5.0)
    assert found.overlap.mean_weight == pytest.approx(1.0)
    clipped = off_policy_value(log, clip=2.0)
    assert clipped.estimate("ips_clipped").value == pytest.approx(0.2)
    assert clipped.overlap.clipped_share == pytest.approx(0.2)
    assert "biased" in clipped.estimate("dr_clipped").method


def test_doubly_robust_of_one_decision_is_the_formula_of_the_books() -> None:
    """V = mean of sum_a pi(a) q(a) + w (r - q(A)), the ridge's q of other folds worked out here again."""
    rng = np.random.default_rng(0)
    log = []
    for n in range(50):
        action = str(rng.choice(["a", "b"], p=[0.7, 0.3]))
        log.append(one(action, {"a": 0.7, "b": 0.3}[action], {"a": 0.2, "b": 0.8}, float(rng.random() < 0.5), n))
    expected = []
    for n, episode in enumerate(log):
        train = [e for m, e in enumerate(log) if m % 5 != n % 5]
        centre = sum(e.outcome for e in train) / len(train)
        q = {}
        for action in "ab":
            ends = [e.outcome - centre for e in train if e.decisions[0].action == action]
            q[action] = min(1.0, max(0.0, centre + sum(ends) / (len(ends) + 1.0)))
        step = episode.decisions[0]
        weight = step.target[step.action] / step.propensity
        expected.append(0.2 * q["a"] + 0.8 * q["b"] + weight * (episode.outcome - q[step.action]))
    assert off_policy_value(log).estimate("dr").value == pytest.approx(float(np.mean(expected)), abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), min_size=2, max_size=30))
def test_the_logging_controller_itself_is_worth_what_it_got(seen: list[tuple[str, bool]]) -> None:
    chances = {"a": 0.7, "b": 0.3}
    log = [one(a, chances[a], chances, float(r), n) for n, (a, r) in enumerate(seen)]
    found = off_policy_value(log)
    for name in ("ips", "snips"):
        assert found.estimate(name).value == pytest.approx(found.logged_value)
    assert found.overlap.effective == pytest.approx(len(log))


def test_estimates_are_unbiased_and_the_model_lowers_the_error() -> None:
    rng = np.random.default_rng(1)
    errors: dict[str, list[float]] = {"ips": [], "dr": []}
    for draw in range(40):
        found = off_policy_value(bandit_log(rng, 120), seed=draw)
        for name, seen in errors.items():
            seen.append(found.estimate(name).value - BANDIT_VALUE)
    for seen in errors.values():
        assert abs(np.mean(seen)) < 3 * np.std(seen) / len(seen) ** 0.5
    assert np.std(errors["dr"]) < 0.8 * np.std(errors["ips"])


def test_a_wrong_propensity_is_seen_in_the_mean_weight() -> None:
    """A planted bug: the log says 0.25 where the chance was 0.5."""
    right = bandit_log(np.random.default_rng(2), 400)
    wrong = [replace(e, decisions=(replace(e.decisions[0], propensity=0.25), *e.decisions[1:])) for e in right]
    assert not any("average" in w for w in off_policy_value(right).warnings)
    assert any("weights average" in w and "not 1" in w for w in off_policy_value(wrong).warnings)


def test_what_the_log_never_does_is_said_not_dropped() -> None:
    sure = [one("a", 1.0, {"a": 0.5, "b": 0.5}, 1.0, n) for n in range(40)]
    found = off_policy_value(sure)
    assert (found.overlap.unsupported, found.overlap.unsupported_episodes) == (40, 40)
    assert any(w.startswith("no support: at 40 of 40 decisions") for w in found.warnings)
    assert found.overlap.mean_weight == 0.5
    unclear = [one("a", 0.5, {"a": 0.5, "b": 0.5}, 1.0, n) for n in range(40)]
    assert off_policy_value(unclear).overlap.unknown == 40
    told = [replace(e, decisions=(replace(e.decisions[0], possible=frozenset({"a", "c"})),)) for e in unclear]
    assert off_policy_value(told).overlap.unsupported == 40
    with pytest.raises(NotComparableError, match="no episode of the log could have been made by flat"):
        off_policy_value([one("a", 0.5, {"b": 1.0}, 1.0, n) for n in range(5)], target="flat")


def test_few_or_heavy_episodes_are_no_claim() -> None:
    log = [one("b", 0.01, {"b": 1.0}, 1.0, 0), *(one("a", 0.99, {"b": 0.9, "a": 0.1}, 0.0, n) for n in range(1, 40))]
    warnings = " ".join(off_policy_value(log).warnings)
    assert "too little for a claim" in warnings and "of all weight" in warnings
    (alone,) = [e for e in off_policy_value([log[0]]).estimates if e.name == "ips"]
    assert alone.interval is None and "no interval" in alone.method


@pytest.mark.parametrize(
    ("propensity", "target", "outcome"),
    [
        (0.0, {"a": 1.0}, 1.0),
        (float("nan"), {"a": 1.0}, 1.0),
        (1.2, {"a": 1.0}, 1.0),
        (0.5, {"a": 0.4}, 1.0),
        (0.5, {"a": 1.0}, float("nan")),
        (0.5, {"a": 1.0}, 7.0),
    ],
)
def test_impossible_logs_are_refused(propensity: float, target: dict[str, float], outcome: float) -> None:
    with pytest.raises(ValueError):
        off_policy_value([one("a", propensity, target, outcome, 0)])


def test_an_empty_log_a_bad_clip_and_uneven_features_are_refused() -> None:
    with pytest.raises(NotComparableError):
        off_policy_value([])
    log = [one("a", 0.5, {"a": 1.0}, 1.0, n) for n in range(2)]
    with pytest.raises(ValueError, match="clip"):
        off_policy_value(log, clip=float("nan"))
    uneven = replace(log[0], decisions=(replace(log[0].decisions[0], features=(1.0,)),))
    with pytest.raises(ValueError, match="features"):
        off_policy_value([uneven, log[1]])
