"""What is under test in a simulated run, and what the run is like."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from ..interfaces import AgentID, LaneDiscipline, Member, Roster, Topology, Transport
from .faults import Faults
from .spending import ROLES


@dataclass(frozen=True)
class Parts:
    """What is under test."""

    topologies: Mapping[str, Topology]
    lanes: LaneDiscipline
    transport: Transport


@dataclass(frozen=True)
class Character:
    """What one run is like, drawn from its seed: the same in all its lives."""

    roster: Roster
    first: str
    capacity: int
    ttl_s: float
    lease_s: float
    deadline_ms: float
    on_busy: str
    pace_s: float
    coordinated: bool
    parallel: bool
    consumers: int
    strict: bool
    dedup_cap: int
    lane_bytes: int | None
    retry_budget: bool

    @classmethod
    def draw(cls, rng: random.Random, topologies: Mapping[str, Topology], faults: Faults) -> Character:
        """A team of 2 to 7 and its settings."""
        size = rng.randint(2, 7)
        members = tuple(Member(AgentID(f"a{i}"), ROLES[i % len(ROLES)]) for i in range(size))
        return cls(
            roster=Roster(members, members[0].id),
            first=rng.choice(sorted(topologies)),
            capacity=rng.choice((3, 30, 10_000)),
            ttl_s=rng.choice((0.05, 0.3, 60.0)),
            lease_s=rng.choice((0.2, 600.0))
            if "never_acks" in faults.enabled or "acks_late" in faults.enabled
            else 600.0,
            deadline_ms=rng.choice((0.0, 5.0, 50.0, 200.0)),
            on_busy=rng.choice(("drain", "migrate")),
            pace_s=rng.choice((0.0, 0.005, 0.02)),
            coordinated=rng.random() < 0.5,
            parallel=rng.random() < 0.5,
            consumers=rng.choice((1, 1, 2, 2)),
            strict=rng.random() < 0.3,
            dedup_cap=rng.choice((0, 50_000)),
            lane_bytes=rng.choice((None, None, None, 200)),
            retry_budget=rng.random() < 0.2,
        )
