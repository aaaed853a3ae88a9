"""A policy belongs to a set of topologies: their order changes nothing, another set has none."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_controllers.bandit_v1 import BanditV1
from apex_controllers.per_episode import PerEpisode
from apex_framework.analysis import checkpoint_bytes, write_checkpoint
from apex_framework.interfaces import STAY, Decision, EpisodeContext, Observation, Outcome, Transition

SET = ("star", "chain", "flat")
FROZEN = EpisodeContext("e", 7, SET, 10_000, frozen=True)


def begun(make: type[BanditV1] | type[PerEpisode], order: tuple[str, ...], policy: Path | None = None) -> BanditV1:
    controller = make(policy)
    controller.begin(replace(FROZEN, topologies=order))
    return controller  # type: ignore[return-value]  # both have what is used here


@settings(deadline=None)  # the first example reads the policy with cold imports
@given(
    order=st.permutations(SET),
    topology=st.sampled_from(["", *SET]),
    roles=st.lists(st.sampled_from(["planner", "coder", "runner", "critic"]), max_size=8),
    since=st.integers(0, 8),
    used=st.integers(0, 12_000),
)
def test_the_shipped_bandit_decides_the_same_in_any_order(
    order: list[str], topology: str, roles: list[str], since: int, used: int
) -> None:
    seen = Observation(3, topology, SET, 0, since, recent_roles=tuple(roles), tokens_used=used, token_budget=10_000)
    usual, other = begun(BanditV1, SET), begun(BanditV1, tuple(order))
    mine, theirs = usual.decide(seen), other.decide(replace(seen, topologies=tuple(order)))
    assert (dict(mine.scores), mine.propensity) == (dict(theirs.scores), theirs.propensity)
    best = max(mine.scores.values())
    if list(mine.scores.values()).count(best) == 1:  # ties (all features zero) are drawn
        assert mine.action == theirs.action


@pytest.mark.parametrize("order", list(permutations(SET)))
@pytest.mark.parametrize("make", [BanditV1, PerEpisode])
def test_a_shipped_policy_is_found_in_any_order_and_back_again_is_the_same_state(
    make: type[BanditV1] | type[PerEpisode], order: tuple[str, ...]
) -> None:
    controller = begun(make, order)
    assert controller.trained
    assert controller.save().meta["topologies"] == list(order)
    controller.begin(FROZEN)
    assert checkpoint_bytes(controller.save()) == checkpoint_bytes(begun(make, SET).save())


@pytest.mark.parametrize("order", [("star", "flat"), ("star", "ring"), (*SET, "ring"), ("star",)])
def test_another_set_has_no_shipped_policy(order: tuple[str, ...]) -> None:
    assert not begun(BanditV1, order).trained
    assert not begun(PerEpisode, order).trained


def test_a_policy_trained_for_other_topologies_serves_them_in_any_order(tmp_path: Path) -> None:
    pair = ("star", "ring")
    teacher = BanditV1("none")
    teacher.begin(replace(FROZEN, topologies=pair, frozen=False))
    outcome = Outcome(terminal=True, success=True)
    teacher.learn(Transition(Observation(0, "", pair, token_budget=10_000), Decision("ring"), outcome))
    write_checkpoint(tmp_path / "p.npz", teacher.save())
    for order in (pair, pair[::-1]):
        pupil = begun(BanditV1, order, tmp_path / "p.npz")
        assert pupil.trained
        assert pupil.decide(Observation(0, "", order, token_budget=10_000)).action == "ring"
        assert set(pupil.decide(Observation(2, "ring", order)).scores) == {STAY, "star"}
