"""The key of a plan is made by the kernel; a call that an interceptor answers costs nothing and is in the records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage import Stage, plain

from apex_framework.episode.issues import issue_cluster
from apex_framework.hookspecs import Add, ApexSpec, hookimpl
from apex_framework.interfaces import Intercepted, Interceptor, LLMResult, PlanKey, Point
from apex_framework.testing.interceptor import check_interceptor


@dataclass
class Onlooker:
    """Sees model calls; answers those of ``instead`` itself, without making them."""

    seen: list[Intercepted] = field(default_factory=list)
    instead: str = ""
    name: str = "onlooker"
    points: frozenset[Point] = frozenset({Point.MODEL_CALL})

    async def around(self, passing: Intercepted, proceed: Callable[[Intercepted], Awaitable[Any]]) -> Any:
        self.seen.append(passing)
        if passing.role == self.instead:
            return LLMResult("FOCUS tiny/work.py::clamp | as before", 0, 0)
        return await proceed(passing)


class Looking(ApexSpec):
    """Registers onlookers, and keeps them."""

    def __init__(self) -> None:
        self.made: list[Onlooker] = []

    @hookimpl
    def apex_interceptors(self, add: Add[Interceptor]) -> None:
        def make(spec: str = "") -> Onlooker:
            self.made.append(Onlooker(instead=spec))
            return self.made[-1]

        add("onlooker", make)


@pytest.fixture(scope="module")
def watched() -> Any:
    looking = Looking()
    stage = Stage(looking=looking)
    yield stage, looking
    stage.close()


def test_an_onlooker_passes_the_kit() -> None:
    check_interceptor(Onlooker)


def test_the_key_has_the_cluster_of_the_task_the_bucket_of_the_issue_and_the_phase(watched: Any) -> None:
    stage, looking = watched
    stage.play("clamp", controller="static:flat", interceptors=("onlooker",))
    seen: list[Intercepted] = looking.made[-1].seen
    assert {(call.role, call.purpose) for call in seen} >= {("planner", "locate"), ("coder", "repair")}
    issue = stage.shop.task("clamp").issue
    assert {replace(call.plan, phase="") for call in seen if call.plan} == {PlanKey("clamp", issue_cluster(issue), "")}
    assert seen[0].plan is not None and seen[0].plan.phase == "planning"
    assert {call.plan.phase for call in seen if call.plan} <= {"planning", "implementation", "debug"}
    assert all(call.plan is not None and call.tell is not None for call in seen)


def test_onlookers_are_made_anew_for_every_episode(watched: Any) -> None:
    stage, looking = watched
    before = len(looking.made)
    for seed in (0, 1):
        stage.play("clamp", seed, controller="static:flat", interceptors=("onlooker",))
    one, two = looking.made[before:]
    assert one is not two and {p.episode_id for p in one.seen}.isdisjoint(p.episode_id for p in two.seen)


def test_a_call_that_is_answered_reserves_and_spends_nothing_and_is_told(watched: Any) -> None:
    stage, _ = watched
    usual = stage.play("clamp", controller="static:flat")
    result = stage.play("clamp", controller="static:flat", interceptors=("onlooker:planner",))
    assert not [row for row in result.calls if row["role"] == "planner"]
    (told,) = [row for row in result.events if row["event"] == "CallAnswered"]
    (call,) = [row for row in usual.calls if row["role"] == "planner"]
    assert (told["role"], told["purpose"], told["tokens_in"]) == ("planner", "locate", call["tokens_in"])
    assert told["tokens_out"] > 0
    assert result.record["tokens"] == sum(row["tokens_in"] + row["tokens_out"] for row in result.calls)
    assert result.record["calls"] == usual.record["calls"] - 1


def test_i_only_look_on_and_the_episode_is_step_for_step_the_same(watched: Any) -> None:
    stage, _ = watched
    assert plain(stage.play("count", 2)) == plain(stage.play("count", 2, interceptors=("onlooker",)))


def test_a_cache_that_is_never_hit_leaves_the_episode_as_it_was(stage: Stage) -> None:
    result = stage.play("clamp", 1, controller="static:flat", interceptors=("plan_cache",))
    assert plain(result) == plain(stage.play("clamp", 1, controller="static:flat"))
    used = [row for row in result.events if row["event"] == "PlanCacheUsed"]
    assert {row["what"] for row in used} == {"miss", "put"}
    assert {row["role"] for row in used} <= {"planner", "critic"}
    moved = {row["metric"]: row["value"] for row in result.metrics if row["metric"].startswith("plan_cache")}
    assert moved.pop("plan_cache_misses_total") == len(used) / 2
    assert moved == {"plan_cache_hits_total": 0.0, "plan_cache_hit_rate": 0.0}


# --- the bucket of an issue -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("issue", "cluster"),
    [
        ("f('x') should give 3, but raises TypeError: 'NoneType' object is not iterable.", "error:typeerror"),
        ("should raise KeyError, but raises UnboundLocalError: cannot access x", "error:unboundlocalerror"),
        ("Traceback ...\n  File x\npkg.mod.CustomException: no", "error:customexception"),
        ("clamp(5, 1, 3) returns 5 instead of 3.", "value:none"),
        ("Look:\n\n    f(1)\n\nThat is odd.", "value:none"),
        ("Users report odd behaviour in `quote`.", "vague:none"),
        ("", "vague:none"),
    ],
)
def test_buckets(issue: str, cluster: str) -> None:
    assert issue_cluster(issue) == cluster


@given(st.text())
def test_every_text_has_one_short_bucket(issue: str) -> None:
    cluster = issue_cluster(issue)
    assert cluster == issue_cluster(issue) and len(cluster) <= 46 and len(cluster.split(":")) == 2
