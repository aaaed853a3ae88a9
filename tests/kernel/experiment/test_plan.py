"""A plan: fixed, hashed, paired."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.episode.arm import Arm
from apex_framework.errors import ConfigError
from apex_framework.experiment.plan import Plan, choose_tasks
from apex_framework.interfaces import Task

MakePlan = Callable[..., Plan]


def test_arms_of_one_task_and_seed_are_adjacent_in_a_drawn_order(make_plan: MakePlan) -> None:
    plan = make_plan(arms=tuple(Arm(name) for name in "abc"), seeds=(0, 1))
    keys = plan.keys()
    blocks = [keys[i : i + 3] for i in range(0, len(keys), 3)]
    assert all(len({(task, seed) for _, task, seed in block}) == 1 for block in blocks)
    assert all(sorted(arm for arm, _, _ in block) == ["a", "b", "c"] for block in blocks)
    assert len({tuple(arm for arm, _, _ in block) for block in blocks}) > 1
    assert plan.size == len(keys) == len(list(plan.jobs())) == 24
    assert plan.token_bound == 240_000


def test_equal_plans_have_equal_digests_and_any_change_shows(make_plan: MakePlan) -> None:
    assert make_plan().digest == make_plan().digest
    changes = [{"seed": 1}, {"suite_digest": "x"}, {"arms": (Arm("a"),)}, {"versions": {}}, {"real_time": True}]
    assert len({make_plan(**change).digest for change in changes} | {make_plan().digest}) == 6


def test_two_arms_of_one_name_are_refused(make_plan: MakePlan) -> None:
    with pytest.raises(ConfigError, match="'a'"):
        make_plan(arms=(Arm("a"), Arm("a", budget=5_000)))


@given(st.integers(1, 30), st.integers(1, 30))
def test_a_smaller_sample_is_part_of_a_larger_one(few: int, many: int) -> None:
    tasks = [Task(f"t{i}", "mini", "dev", "", cluster="c") for i in range(25)]
    small, large = (choose_tasks(tasks, n) for n in sorted((few, many)))
    assert set(small) <= set(large)
    assert [t.id for t in large] == [t.id for t in tasks if t.id in {p.id for p in large}]
    assert len(small) == min(few, many, 25)
