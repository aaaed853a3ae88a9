"""LinUCB and Thompson sampling: the same ridge as bandit_v1, explored otherwise."""

from __future__ import annotations

import random
from math import sqrt
from typing import Any

import numpy as np
import pytest

from apex_controllers.bandit_v1 import BanditV1
from apex_controllers.linucb import LinUCB
from apex_controllers.thompson import Thompson, largest_probability
from apex_framework.errors import ConfigError
from apex_framework.interfaces import STAY, EpisodeContext, Observation

TOPOLOGIES = ("star", "chain", "flat")


def taught(kind: type[BanditV1], **options: Any) -> BanditV1:
    """A controller with sixty rows of made-up experience."""
    made = kind("none", **options)
    made.begin(EpisodeContext("e", 1, TOPOLOGIES, 10_000, frozen=False))
    draw = random.Random(5)
    for _ in range(60):
        made.update([draw.random() for _ in range(8)], draw.randrange(4), draw.random())
    return made


def seen(topology: str = "star", **changes: Any) -> Observation:
    return Observation(
        3,
        topology,
        TOPOLOGIES,
        steps_since_switch=2,
        recent_roles=("planner", "coder"),
        token_budget=100,
        tokens_used=30,
        **changes,
    )


def frozen(made: BanditV1, seed: int = 1) -> BanditV1:
    made.begin(EpisodeContext("e", seed, TOPOLOGIES, 10_000, frozen=True))
    return made


@pytest.mark.parametrize("kind", [LinUCB, Thompson])
def test_frozen_it_chooses_what_the_ridge_of_bandit_v1_would(kind: type[BanditV1]) -> None:
    for topology in TOPOLOGIES:
        ours, theirs = frozen(taught(kind)).decide(seen(topology)), frozen(taught(BanditV1)).decide(seen(topology))
        assert (ours.action, ours.scores, ours.propensity) == (theirs.action, theirs.scores, 1.0)


def test_linucb_takes_the_largest_upper_bound() -> None:
    made = taught(LinUCB, alpha=2.0)
    decision = made.decide(seen())
    x = np.array(decision.features)
    state = made._state
    bounds = {}
    for name, score in decision.scores.items():
        inverse = np.array(state.ridge.inverses[state.actions.index(name)]).reshape(8, 8)
        bounds[name] = score + 2.0 * sqrt(x @ inverse @ x)
    assert decision.action == max(bounds, key=bounds.__getitem__)
    assert decision.propensity == 1.0


def test_thompson_draws_as_often_as_its_propensity_says() -> None:
    made = taught(Thompson, scale=0.5)
    counts: dict[str, int] = {}
    propensities: dict[str, float] = {}
    for _ in range(3_000):
        decision = made.decide(seen())
        counts[decision.action] = counts.get(decision.action, 0) + 1
        propensities[decision.action] = decision.propensity
    assert len(counts) > 1
    for action, count in counts.items():
        assert count / 3_000 == pytest.approx(propensities[action], abs=0.04)


def test_propensities_of_all_actions_add_up() -> None:
    means, widths = {"a": 0.1, "b": 0.3, "c": -0.2}, {"a": 0.2, "b": 0.05, "c": 0.6}
    assert sum(largest_probability(name, means, widths) for name in means) == pytest.approx(1.0, abs=1e-6)
    even = dict.fromkeys("ab", 0.5)
    assert largest_probability("a", even, dict.fromkeys("ab", 0.1)) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("kind", [LinUCB, Thompson])
def test_what_it_learned_is_its_own(kind: type[BanditV1]) -> None:
    saved = taught(kind).save()
    loaded = kind("none")
    loaded.load(saved)
    assert loaded.save() == saved
    with pytest.raises(ValueError, match="not a bandit_v1 policy"):
        BanditV1("none").load(saved)


@pytest.mark.parametrize(("kind", "option"), [(LinUCB, "alpha"), (Thompson, "scale")])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), True, "x"])
def test_an_impossible_width_is_refused(kind: Any, option: str, value: object) -> None:
    with pytest.raises(ConfigError, match=option):
        kind("none", **{option: value})


def test_masked_features_are_zero_and_the_rest_as_they_were() -> None:
    whole = frozen(taught(BanditV1)).decide(seen()).features
    masked = frozen(taught(BanditV1, mask=["token_headroom_pct", "planner_share"])).decide(seen()).features
    assert [i for i, (a, b) in enumerate(zip(whole, masked, strict=True)) if a != b] == [4, 7]
    assert (masked[4], masked[7]) == (0.0, 0.0)
    with pytest.raises(ConfigError, match="mask names no feature: 'headroom'"):
        frozen(BanditV1("none", mask=["headroom"]))


def test_a_switch_cost_can_only_make_it_stay() -> None:
    for topology in TOPOLOGIES:
        free, costly = frozen(taught(BanditV1)), frozen(taught(BanditV1, switch_cost=0.3))
        cheap, dear = free.decide(seen(topology)), costly.decide(seen(topology))
        assert dear.scores[STAY] == cheap.scores[STAY]
        assert all(dear.scores[t] == pytest.approx(cheap.scores[t] - 0.3) for t in dear.scores if t != STAY)
        assert dear.action in (STAY, cheap.action)
    assert frozen(taught(BanditV1, switch_cost=100.0)).decide(seen()).action == STAY
    start = Observation(0, "", TOPOLOGIES)
    assert (
        frozen(taught(BanditV1, switch_cost=0.3)).decide(start).scores == frozen(taught(BanditV1)).decide(start).scores
    )
    with pytest.raises(ConfigError, match="switch_cost"):
        BanditV1("none", switch_cost=-1.0)
