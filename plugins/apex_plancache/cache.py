"""A cache of plans: the least recently used one goes when it is full, and none outlives its time."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from apex_framework.errors import ConfigError
from apex_framework.interfaces.prompting import GRAMMAR_VERSION

CAPACITY: Final = 1024
TTL_S: Final = 3600.0
PLAN_VERSION: Final = f"1/grammar-{GRAMMAR_VERSION}"
"""Form of a plan; plans of another form are not read."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What an agent was told to do, step by step: the lines of an answer in the prompt grammar."""

    steps: tuple[str, ...]
    version: str = PLAN_VERSION
    created_ts: float = 0.0
    """Seconds on the cache's clock."""


def _any(_: AgentPlan) -> bool:
    return True


class LRUPlanCache(Generic[K]):
    """Key -> plan. ``now`` is a clock in seconds that never goes back.

    Expired plans go when they are met; reads and writes take constant time. Raises ConfigError for a capacity under 1
    or a time to live that is no positive number.
    """

    def __init__(self, now: Callable[[], float], *, capacity: int = CAPACITY, ttl_s: float = TTL_S) -> None:
        if type(capacity) is not int or capacity < 1:
            raise ConfigError(f"plan_cache: capacity must be an integer >= 1, not {capacity!r}", "e.g. capacity=1024")
        self._now, self._capacity, self._ttl_s = now, capacity, checked_ttl(ttl_s)
        self._plans: OrderedDict[K, tuple[AgentPlan, float]] = OrderedDict()
        self.hits = 0
        self.misses = 0
        self.evictions = 0
        """Plans that went because the cache was full."""

    def get(self, key: K, fits: Callable[[AgentPlan], bool] = _any) -> AgentPlan | None:
        """The plan of a key, if it is there, is not too old and ``fits``; counted as a hit, or else as a miss."""
        found = self._plans.get(key)
        if found is not None and self._now() >= found[1]:
            del self._plans[key]
            found = None
        if found is None or not fits(found[0]):
            self.misses += 1
            return None
        self._plans.move_to_end(key)
        self.hits += 1
        return found[0]

    def put(self, key: K, plan: AgentPlan, ttl_s: float | None = None) -> None:
        """Keep a plan, in the place of one with the same key. Raises ConfigError as making a cache does."""
        expires = self._now() + (self._ttl_s if ttl_s is None else checked_ttl(ttl_s))
        self._plans[key] = (plan, expires)
        self._plans.move_to_end(key)
        if len(self._plans) > self._capacity:
            self._plans.popitem(last=False)
            self.evictions += 1

    def hit_rate(self) -> float:
        """Hits as a share of what was asked for; 0 before anything was."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0

    def __len__(self) -> int:
        return len(self._plans)


def checked_ttl(ttl_s: float) -> float:
    """A time to live in seconds. Raises ConfigError unless it is a finite number above 0."""
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, int | float) or not 0 < ttl_s < math.inf:
        raise ConfigError(f"plan_cache: ttl_s must be a number of seconds above 0, not {ttl_s!r}", "e.g. ttl_s=3600")
    return float(ttl_s)
