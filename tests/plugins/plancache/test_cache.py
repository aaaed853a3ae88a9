"""The cache: least recently used out first, nothing older than its time, every look-up counted once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.errors import ConfigError
from apex_plancache.cache import PLAN_VERSION, AgentPlan, LRUPlanCache


class Time:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def plan(step: str) -> AgentPlan:
    return AgentPlan((step,))


def test_a_plan_is_found_until_its_time_is_over() -> None:
    time = Time()
    cache: LRUPlanCache[str] = LRUPlanCache(time, ttl_s=10.0)
    cache.put("a", plan("1"))
    cache.put("b", plan("2"), ttl_s=3.0)
    time.now = 2.9
    assert cache.get("a") == plan("1") and cache.get("b") == plan("2")
    time.now = 3.0
    assert cache.get("b") is None
    time.now = 9.999
    assert cache.get("a") == plan("1"), "a look-up does not renew, and does not end, a plan's time"
    time.now = 10.0
    assert cache.get("a") is None and len(cache) == 0
    assert (cache.hits, cache.misses, cache.evictions) == (3, 2, 0)


def test_the_least_recently_used_plan_goes_first_and_a_second_put_evicts_nobody() -> None:
    cache: LRUPlanCache[str] = LRUPlanCache(Time(), capacity=2)
    for name in "aabb":
        cache.put(name, plan(name))
    assert cache.evictions == 0
    assert cache.get("a")
    cache.put("c", plan("c"))
    assert cache.get("b") is None and cache.get("a") and cache.get("c")
    assert (cache.hits, cache.misses, cache.evictions) == (3, 1, 1)
    assert cache.hit_rate() == 0.75


def test_a_plan_that_does_not_fit_is_a_miss_and_stays() -> None:
    cache: LRUPlanCache[str] = LRUPlanCache(Time())
    cache.put("a", plan("1"))
    assert cache.get("a", lambda found: False) is None
    assert cache.get("a") == plan("1")
    assert (cache.hits, cache.misses) == (1, 1)


def test_the_defaults_are_the_specified_ones() -> None:
    time = Time()
    cache: LRUPlanCache[int] = LRUPlanCache(time)
    assert cache.hit_rate() == 0.0
    for key in range(1025):
        cache.put(key, plan("x"))
    assert len(cache) == 1024 and cache.evictions == 1
    time.now = 3599.9
    assert cache.get(1024)
    time.now = 3600.0
    assert cache.get(1024) is None
    assert AgentPlan(("x",)).version == PLAN_VERSION


@pytest.mark.parametrize("options", [{"capacity": 0}, {"capacity": True}, {"capacity": 1.5}, {"ttl_s": 0.0}])
@pytest.mark.parametrize("also", [{}, {"ttl_s": float("nan")}, {"ttl_s": float("inf")}, {"ttl_s": -1.0}])
def test_impossible_sizes_and_times_are_refused(options: dict[str, Any], also: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="plan_cache"):
        LRUPlanCache(Time(), **{**options, **also})


moves = st.lists(
    st.tuples(st.sampled_from(["get", "put", "wait"]), st.integers(0, 4), st.floats(0.1, 5.0)), max_size=60
)


def replay(kind: type[LRUPlanCache[int]], steps: list[tuple[str, int, float]]) -> None:
    """Against a list of (key, plan, expiry) in order of use, kept with the plainest means."""
    time, capacity = Time(), 3
    cache = kind(time, capacity=capacity, ttl_s=4.0)
    model: list[tuple[int, AgentPlan, float]] = []
    hits = misses = evicted = 0
    for number, (what, key, seconds) in enumerate(steps):
        mine = [entry for entry in model if entry[0] == key]
        if what == "wait":
            time.now += seconds
        elif what == "put":
            model = [entry for entry in model if entry[0] != key] + [(key, plan(str(number)), time.now + 4.0)]
            evicted += len(model) > capacity
            model = model[-capacity:]
            cache.put(key, plan(str(number)))
        else:
            alive = [entry for entry in mine if time.now < entry[2]]
            model = [entry for entry in model if entry[0] != key] + alive
            hits, misses = hits + len(alive), misses + (not alive)
            assert cache.get(key) == (alive[0][1] if alive else None)
        assert len(cache) == len(model)
    assert (cache.hits, cache.misses, cache.evictions) == (hits, misses, evicted)


@given(moves)
def test_it_does_what_a_plain_list_does(steps: list[tuple[str, int, float]]) -> None:
    replay(LRUPlanCache, steps)


class Evicting(LRUPlanCache[int]):
    """The specification's snippet: a put evicts also when the key is there."""

    def put(self, key: int, plan: AgentPlan, ttl_s: float | None = None) -> None:
        if len(self) >= self._capacity:
            self._plans.popitem(last=False)
            self.evictions += 1
        super().put(key, plan, ttl_s)


class Deathless(LRUPlanCache[int]):
    """A look-up renews a plan's time."""

    def get(self, key: int, fits: Any = lambda _: True) -> AgentPlan | None:
        found = super().get(key, fits)
        if found is not None:
            self._plans[key] = (found, self._now() + self._ttl_s)
        return found


@pytest.mark.parametrize(
    ("planted", "steps"),
    [
        (Evicting, [("put", 0, 1.0), ("put", 1, 1.0), ("put", 2, 1.0), ("put", 2, 1.0), ("get", 0, 1.0)]),
        (Deathless, [("put", 0, 1.0), ("wait", 0, 3.0), ("get", 0, 1.0), ("wait", 0, 3.0), ("get", 0, 1.0)]),
    ],
)
def test_planted_bugs_are_caught(planted: type[LRUPlanCache[int]], steps: list[tuple[str, int, float]]) -> None:
    replay(LRUPlanCache, steps)
    with pytest.raises(AssertionError):
        replay(planted, steps)
