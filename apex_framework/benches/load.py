"""Arrivals and handling times: what a profile says, drawn from seeded generators; and the processor to stay on."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass

from .profiles import Bursts, Profile

Z95 = 1.6448536269514722
"""The standard normal's 95 % quantile."""


@dataclass(frozen=True, slots=True)
class Lognormal:
    """A handling time in milliseconds: ``exp(mu + sigma * Z)`` with Z standard normal."""

    mu: float
    sigma: float

    @classmethod
    def of(cls, p50: float, p95: float) -> Lognormal:
        """The one with these quantiles: the median is ``exp(mu)``, the 95 % quantile ``exp(mu + 1.645 sigma)``."""
        return cls(math.log(p50), math.log(p95 / p50) / Z95)

    @property
    def mean(self) -> float:
        """Expected value."""
        return math.exp(self.mu + self.sigma**2 / 2)

    def draw(self, rng: random.Random) -> float:
        """One handling time."""
        return rng.lognormvariate(self.mu, self.sigma)


@dataclass(frozen=True, slots=True)
class Handler:
    """Handling times of one agent in milliseconds; a sick one is now and then stuck before it begins."""

    law: Lognormal
    stuck_share: float = 0.0
    stuck_ms: float = 0.0

    @classmethod
    def of(cls, profile: Profile, *, sick: bool) -> Handler:
        """An agent of a profile, healthy or sick."""
        law = Lognormal.of(profile.handler_ms["p50"], profile.handler_ms["p95"])
        return cls(law, profile.sick.share, profile.sick.stuck_ms) if sick and profile.sick else cls(law)

    @property
    def mean(self) -> float:
        """Expected time from lease to acknowledgement."""
        return self.law.mean + self.stuck_share * self.stuck_ms

    def draw(self, rng: random.Random) -> tuple[float, float]:
        """For how long it is stuck first, and how long it then takes."""
        stuck = self.stuck_ms if rng.random() < self.stuck_share else 0.0
        return stuck, self.law.draw(rng)


def rate(profile: Profile) -> float:
    """Messages per second that the whole team is offered, averaged over whole periods."""
    capacity = profile.agents * 1000 / Lognormal.of(profile.handler_ms["p50"], profile.handler_ms["p95"]).mean
    return profile.load * capacity


def arrivals(mean_rate: float, seconds: float, bursts: Bursts | None, rng: random.Random) -> Iterator[float]:
    """Times of arrival in [0, seconds): Poisson with the given mean rate, or with a rate that jumps in bursts.

    Thinning (Lewis and Shedler, 1979): candidates at the highest rate, kept with probability rate / highest.
    """
    quiet = highest = mean_rate
    if bursts:
        share = bursts.length_ms / bursts.period_ms
        quiet = mean_rate / (1 - share + share * bursts.factor)
        highest = quiet * max(bursts.factor, 1.0)
    at = 0.0
    while highest > 0 and (at := at + rng.expovariate(highest)) < seconds:
        now = quiet
        if bursts and at * 1000 % bursts.period_ms < bursts.length_ms:
            now = quiet * bursts.factor
        if now >= highest or rng.random() * highest < now:
            yield at


def classes(profile: Profile, rng: random.Random) -> Iterator[str]:
    """Service classes, drawn by the profile's shares."""
    names, weights = list(profile.classes), list(profile.classes.values())
    while True:
        yield rng.choices(names, weights)[0]


def pin() -> str:
    """Keep this process on one processor; returns in words what was done, or why not."""
    if not hasattr(os, "sched_setaffinity"):
        return "not pinned: this system cannot"
    try:
        processor = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processor})
    except OSError as error:
        return f"not pinned: {error.strerror}"
    return f"pinned to processor {processor}"
