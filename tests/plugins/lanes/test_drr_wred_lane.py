"""drr_wred: shares of 8:3:1 for whoever waits, refusals along its curve, and nothing lost by either."""

from __future__ import annotations

import random
from collections import Counter
from math import sqrt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.errors import ConfigError
from apex_framework.interfaces import AgentID, Epoch, Message, MessagePriority, RouteResult
from apex_framework.testing.lane import check_lane
from apex_lanes.drr_wred import DrrWred, DrrWredLane

FINAL, DRAFT, CRITIC = MessagePriority
WEIGHTS = {FINAL: 8, DRAFT: 3, CRITIC: 1}
THRESHOLDS = {FINAL: 0.95, DRAFT: 0.80, CRITIC: 0.60}
SLOPES = {FINAL: 0.5, DRAFT: 0.8, CRITIC: 1.0}


def message(priority: Any, number: int = 0) -> Message:
    return Message("e", f"m{number}", AgentID("a"), AgentID("b"), Epoch(0), {}, priority, created_ts=0.0)


def lane(capacity: int = 1000, seed: int = 1, **options: Any) -> DrrWredLane:
    return DrrWred(**options).lane("b", capacity, random.Random(seed))


def served(queue: DrrWredLane, count: int) -> list[Message]:
    taken = [queue.take() for _ in range(count)]
    return [m for m in taken if m is not None]


def test_drr_wred_conforms() -> None:
    check_lane(DrrWred)


def test_RTR3_backlogged_classes_are_served_8_to_3_to_1() -> None:
    queue = lane()
    for number in range(3000):
        queue.restore(message(list(MessagePriority)[number % 3], number))
    counts = Counter(m.priority for m in served(queue, 1200))
    for priority, weight in WEIGHTS.items():
        assert abs(counts[priority] / 1200 - weight / 12) <= 0.01 * weight / 12


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 20))
@settings(deadline=None)
def test_shares_are_exact_round_by_round_for_any_weights(final: int, draft: int, critic: int, rounds: int) -> None:
    weights = {"final": final, "draft": draft, "critic": critic}
    queue = lane(weights=weights)
    for priority in MessagePriority:
        for number in range(weights[priority] * rounds + 1):
            queue.restore(message(priority, number))
    for _ in range(rounds):
        assert Counter(m.priority for m in served(queue, final + draft + critic)) == Counter(weights)


@given(st.lists(st.sampled_from([*MessagePriority, None]), max_size=300))
@settings(deadline=None)
def test_no_class_starves_under_any_arrivals(steps: list[MessagePriority | None]) -> None:
    """Whatever comes and goes, a class that waits is served within one round of all the others."""
    queue = lane()
    passed_over: Counter[MessagePriority] = Counter()
    waiting: Counter[MessagePriority] = Counter()
    for number, step in enumerate(steps):
        if step is not None:
            queue.restore(message(step, number))
            waiting[step] += 1
        elif (taken := queue.take()) is not None:
            waiting[taken.priority] -= 1
            for priority in MessagePriority:
                passed_over[priority] = passed_over[priority] + 1 if waiting[priority] else 0
            passed_over[taken.priority] = 0
            assert all(passed_over[p] <= 12 - WEIGHTS[p] for p in MessagePriority)


def test_alone_a_class_has_the_whole_service() -> None:
    queue = lane()
    for number in range(50):
        queue.restore(message(CRITIC, number))
    assert [m.msg_id for m in served(queue, 50)] == [f"m{i}" for i in range(50)]


@pytest.mark.parametrize("priority", list(MessagePriority))
@pytest.mark.parametrize("occupancy", [0.0, 0.3, 0.59, 0.61, 0.7, 0.79, 0.85, 0.94, 0.96, 0.99, 0.999])
def test_RTR4_refusals_follow_the_curve(priority: MessagePriority, occupancy: float) -> None:
    """p = slope (o - threshold) / (1 - threshold): within 4 sigma of the binomial, over 20,000 offers."""
    queue, tries = lane(), 20_000
    for number in range(round(occupancy * 1000)):
        queue.restore(message(FINAL, number))
    over = occupancy - THRESHOLDS[priority]
    p = SLOPES[priority] * max(over, 0.0) / (1 - THRESHOLDS[priority])
    refused = 0
    for _ in range(tries):
        if queue.offer(message(priority)) is RouteResult.WRED:
            refused += 1
        else:
            queue.take()  # keeps the occupancy where it is
    assert abs(refused - p * tries) <= 4 * sqrt(tries * p * (1 - p))


def test_full_is_full_and_draws_no_chance() -> None:
    generator = random.Random(1)
    queue = DrrWred().lane("b", 10, generator)
    for number in range(10):
        queue.restore(message(FINAL, number))
    state = generator.getstate()
    assert {queue.offer(message(p)) for p in MessagePriority} == {RouteResult.FULL}
    assert generator.getstate() == state


def test_the_same_seed_refuses_the_same_messages() -> None:
    def refused(seed: int) -> list[int]:
        queue = lane(100, seed)
        answers = [queue.offer(message(CRITIC, number)) for number in range(100)]
        return [number for number, answer in enumerate(answers) if answer is RouteResult.WRED]

    assert refused(1) == refused(1) != refused(2)


@pytest.mark.parametrize("stranger", ["urgent", "", None, 3, [], {}])
def test_a_class_that_nobody_knows_is_served_as_the_least_urgent(stranger: Any) -> None:
    queue = lane(10)
    assert queue.offer(message(stranger, 1)) is RouteResult.ENQUEUED
    queue.restore(message(stranger, 2))
    queue.restore(message(FINAL, 3))
    assert [m.msg_id for m in queue] == ["m1", "m2", "m3"]
    assert [m.msg_id for m in served(queue, 3)] == ["m3", "m1", "m2"]


def test_classes_as_plain_text_are_known() -> None:
    queue = lane()
    queue.restore(message("critic", 1))
    queue.restore(message("final", 2))
    assert [m.msg_id for m in served(queue, 2)] == ["m2", "m1"]


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"weights": {"final": 0}}, "the weight of final is 0"),
        ({"weights": {"final": 1.5}}, "the weight of final is 1.5"),
        ({"weights": {"urgent": 1}}, "unknown class 'urgent' in weights"),
        ({"weights": [8, 3, 1]}, "weights is a list"),
        ({"thresholds": {"draft": 1}}, "the threshold of draft is 1, not in [0, 1)"),
        ({"thresholds": {"draft": float("nan")}}, "the threshold of draft is nan"),
        ({"slopes": {"critic": 1.1}}, "the slope of critic is 1.1, not in [0, 1]"),
        ({"slopes": {"critic": "1"}}, "the slope of critic is '1'"),
        ({"spec": "8,3"}, "needs three weights"),
        ({"spec": "8,x,1"}, "needs three weights"),
        ({"spec": "8,3,1", "weights": {}}, "weights are given twice"),
    ],
)
def test_impossible_options_are_refused_in_one_line(options: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigError) as refused:
        DrrWred(**options)
    assert cause in refused.value.cause and "\n" not in refused.value.cause


def test_options_change_what_they_name_and_nothing_else() -> None:
    classes = DrrWred(thresholds={"critic": 0.1}, spec="5,4,3").classes
    assert [(c.name, c.weight, c.threshold, c.slope) for c in classes] == [
        (FINAL, 5, 0.95, 0.5),
        (DRAFT, 4, 0.80, 0.8),
        (CRITIC, 3, 0.1, 1.0),
    ]
