"""I1, I2, I3 under 5,000 random switches in virtual time; and the checker sees each planted bug."""

from __future__ import annotations

from typing import Any

import pytest

from apex_framework.testing.faults import PLANTED
from apex_framework.testing.simulation import Simulation, simulate
from apex_lanes.fifo import Fifo
from apex_topologies.chain import Chain
from apex_topologies.flat import Flat
from apex_topologies.star import Star
from apex_transports.inproc import InProcess

PARTS: dict[str, Any] = {
    "topologies": {"star": Star(), "chain": Chain(), "flat": Flat()},
    "lanes": Fifo(),
    "transport": InProcess(),
}


def test_I1_I2_I3_hold_under_random_traffic_switches_aborts_and_cancellations() -> None:
    outcome = simulate(5000, seed=1_000_000, **PARTS)
    assert not outcome.violations, outcome.examples
    assert outcome.unbalanced == 0
    assert outcome.switches == 5000
    assert min(outcome.committed, outcome.aborted, outcome.migrated, outcome.delivered) > 500
    assert outcome.cancelled > 0


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_bug_is_caught(kind: str) -> None:
    outcome = simulate(1000, bug=PLANTED[kind], **PARTS)
    assert outcome.violations[kind] > 0, outcome.violations


def test_the_same_seed_gives_the_same_history() -> None:
    assert Simulation(7, 50, **PARTS).run() == Simulation(7, 50, **PARTS).run()
