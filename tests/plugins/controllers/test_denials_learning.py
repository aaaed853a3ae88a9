"""bandit_v1 learns from denials (BUD-11): where one topology is refused more, its deny rate falls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_controllers.bandit_v1 import BanditV1
from apex_controllers.reward import RewardWeights, credited_denials, reward_parts
from apex_framework.interfaces import STAY, Decision, EpisodeContext, Observation, Outcome, Transition

SET = ("star", "chain", "flat")
BUDGET = 10_000
STEPS = 4
WINDOW = 40
EPISODES = 200
STRONG = {"deny": -1.0}
CREDITED = {"deny": -1.0, "deny_credit": 1.0}


class Dropped(BanditV1):
    """Planted: the outcome's refusals never arrive."""

    def learn(self, transition: Transition) -> None:
        super().learn(replace(transition, outcome=replace(transition.outcome, denied=0, denied_tokens=0)))


class Flipped(BanditV1):
    """Planted: a refusal is a reward."""

    def reward_parts(self, transition: Transition, context: EpisodeContext) -> dict[str, float]:
        parts = super().reward_parts(transition, context)
        return {**parts, "deny": -parts["deny"]}


def refusals(controller: BanditV1, seed: int, *, late: bool) -> int:
    """One episode of four steps; each asks once, and is refused in a chain: at every step, or only at the last.

    Where refusals come late the topology is chosen at the start and for good.
    """
    controller.begin(EpisodeContext(f"e{seed}", seed, SET, BUDGET, frozen=False))
    topology, refused = "", 0
    for step in range(STEPS):
        seen = Observation(
            step,
            topology,
            SET,
            can_switch=step == 0 or not late,
            steps_since_switch=step,
            tokens_used=1_500 * step,
            token_budget=BUDGET,
        )
        decision = controller.decide(seen)
        topology = topology if decision.action == STAY else decision.action
        denied = topology == "chain" and (step == STEPS - 1 or not late)
        refused += denied
        outcome = Outcome(tokens=500, denied=denied, denied_tokens=2_000 * denied, terminal=step == STEPS - 1)
        controller.learn(Transition(seen, decision, outcome))
    return refused


def rates(kind: type[BanditV1], reward: Mapping[str, float], *, late: bool = False) -> tuple[float, float]:
    """Refusals per episode in the first and the last window, means of five trainings from nothing."""
    first, last = [], []
    for training in range(5):
        controller = kind("none", reward=reward)
        seen = [refusals(controller, 1_000 * training + n, late=late) for n in range(EPISODES)]
        first.append(fmean(seen[:WINDOW]))
        last.append(fmean(seen[-WINDOW:]))
    return fmean(first), fmean(last)


def falls(kind: type[BanditV1], reward: Mapping[str, float], *, late: bool = False) -> bool:
    """Whether it falls to below a third of what acting at random is refused: exploration alone leaves a fifth."""
    at_random = (1 if late else STEPS) / len(SET)
    first, last = rates(kind, reward, late=late)
    return last < at_random / 3 and last <= first


@pytest.mark.parametrize("reward", [{}, STRONG, CREDITED])
def test_its_deny_rate_falls_where_a_refusal_follows_at_once(reward: Mapping[str, float]) -> None:
    assert falls(BanditV1, reward)


def test_refusals_that_come_late_are_learned_from_when_they_are_credited_to_earlier_decisions() -> None:
    assert falls(BanditV1, CREDITED, late=True)
    assert falls(BanditV1, {"deny_credit": 1.0}, late=True)


def test_without_that_credit_the_decision_that_leads_to_late_refusals_never_hears_of_them() -> None:
    controllers = [BanditV1("none", reward=reward) for reward in (STRONG, {"deny": 0.0})]
    for controller in controllers:
        for seed in range(60):
            refusals(controller, seed, late=True)
    start = Observation(0, "", SET, token_budget=BUDGET)
    for controller in controllers:
        controller.begin(EpisodeContext("e", 0, SET, BUDGET))
    one, other = (controller.decide(start).scores for controller in controllers)
    assert one == other


@pytest.mark.parametrize("late", [False, True])
def test_without_a_penalty_the_deny_rate_does_not_fall(late: bool) -> None:
    assert not falls(BanditV1, {**CREDITED, "deny": 0.0}, late=late)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("planted", [Dropped, Flipped])
def test_a_signal_that_is_dropped_or_has_the_wrong_sign_is_caught(planted: type[BanditV1], late: bool) -> None:
    assert not falls(planted, CREDITED, late=late)


@given(estimate=st.integers(0, 50_000), budget=st.integers(1, 50_000), coefficient=st.floats(-10, 0))
def test_the_penalty_is_proportional_to_the_estimate(estimate: int, budget: int, coefficient: float) -> None:
    transition = Transition(Observation(0, "", SET), Decision("star"), Outcome(denied=1, denied_tokens=estimate))
    context = EpisodeContext("e", 0, SET, budget)
    part = reward_parts(transition, context, RewardWeights(deny=coefficient))["deny"]
    assert part == pytest.approx(coefficient * estimate / budget) and part <= 0


@given(
    st.lists(st.tuples(st.floats(-5, 0), st.integers(1, 4)), min_size=1, max_size=12),
    st.floats(0, 1),
    st.floats(0.5, 1),
)
def test_the_credit_is_the_discounted_sum_of_what_is_refused_later(
    intervals: list[tuple[float, int]], share: float, gamma: float
) -> None:
    denied, durations = [d for d, _ in intervals], [k for _, k in intervals]
    expected = [
        share * sum(denied[i] * gamma ** sum(durations[j + 1 : i + 1]) for i in range(j + 1, len(denied)))
        for j in range(len(denied))
    ]
    assert credited_denials(denied, durations, share, gamma) == pytest.approx(expected)


def test_a_policy_says_that_denials_were_credited_and_nothing_new_when_they_were_not() -> None:
    assert set(BanditV1("none").save().meta["reward"]) == {
        "phase",
        "pass_rate",
        "tokens",
        "switch",
        "deny",
        "terminal",
        "gamma",
    }
    assert BanditV1("none", reward=CREDITED).save().meta["reward"]["deny_credit"] == 1.0
