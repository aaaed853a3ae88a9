"""The simulation itself: nothing is broken in 100,000 checked steps, every fault strikes, and the same seed repeats."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from apex_framework.interfaces import Message, Roster, RouteResult, Routes
from apex_framework.testing import Outcome, simulate
from apex_framework.testing.faults import FAULTS, Faults
from apex_framework.testing.invariants import INVARIANTS
from apex_framework.testing.simulation import Simulation, default_parts
from apex_framework.testing.trace import Trace
from apex_lanes.drr_wred import DrrWred
from apex_lanes.fifo import Fifo, FifoLane
from apex_topologies.chain import Chain
from apex_topologies.flat import Flat
from apex_topologies.star import Star
from apex_transports.inproc import InProcess
from apex_transports.pipe import Pipe

PARTS: dict[str, Any] = {"topologies": {"star": Star(), "chain": Chain(), "flat": Flat()}, "transport": InProcess()}


@pytest.mark.simulation
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("lanes", [Fifo(), DrrWred()], ids=lambda lanes: lanes.name)
def test_every_invariant_holds_at_each_of_100_000_steps_under_every_fault(lanes: Any) -> None:
    outcome = simulate(lanes=lanes, seeds=190, seed=2_000_000, **PARTS)
    assert not outcome.violations, outcome.report()
    assert outcome.steps >= 50_000
    assert outcome.silent == []
    assert min(outcome.committed, outcome.migrated, outcome.dead) > 100
    assert outcome.lives > outcome.seeds
    assert {"journal", "cancelled", "quiesce_deadline", "prepare_failed", "prepare_deadline"} <= set(outcome.aborted)


@pytest.mark.simulation
@pytest.mark.parametrize("lanes", [Fifo(), DrrWred()], ids=lambda lanes: lanes.name)
def test_every_invariant_holds_in_a_few_runs(lanes: Any) -> None:
    outcome = simulate(lanes=lanes, seeds=25, seed=3_000_000, **PARTS)
    assert not outcome.violations, outcome.report()
    assert outcome.steps >= 25 * 200


@pytest.mark.simulation
def test_another_transport_does() -> None:
    outcome = simulate(lanes=Fifo(), seeds=10, **{**PARTS, "transport": Pipe()})
    assert not outcome.violations, outcome.report()


def test_without_faults_none_strikes() -> None:
    outcome = simulate(lanes=Fifo(), seeds=5, faults=(), **PARTS)
    assert not outcome.violations, outcome.report()
    assert not outcome.faults
    assert outcome.lives == 5


def test_the_same_seed_gives_the_same_run() -> None:
    first, second, other = (simulate(lanes=Fifo(), seeds=4, seed=seed, **PARTS) for seed in (7, 7, 8))
    assert first == second
    assert first.trace_hash != other.trace_hash


def test_the_same_seed_gives_the_same_run_in_any_process_and_under_any_hash_seed() -> None:
    code = (
        "from apex_framework.testing import simulate\n"
        "print(simulate(seeds=4, seed=7).trace_hash, simulate(seeds=1, seed=8).trace_hash)"
    )
    answers = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for hash_seed in ("0", "31337")
    ]
    here = [simulate(lanes=Fifo(), seeds=4, seed=7, **PARTS), simulate(lanes=Fifo(), seeds=1, seed=8, **PARTS)]
    assert answers == [[outcome.trace_hash for outcome in here]] * 2


def test_one_seed_of_many_can_be_repeated_alone() -> None:
    parts = default_parts(lanes=Fifo(), **PARTS)
    traces: list[Trace] = []
    for _ in range(2):
        simulation = Simulation(41, parts)
        simulation.run()
        traces.append(simulation.trace)
    assert traces[0].hash == traces[1].hash
    assert list(traces[0].tail) == list(traces[1].tail)


def test_progress_may_end_it() -> None:
    seen: list[int] = []

    class Enough(Exception):
        pass

    def progress(outcome: Outcome) -> None:
        seen.append(outcome.seeds)
        if len(seen) == 3:
            raise Enough

    with pytest.raises(Enough):
        simulate(lanes=Fifo(), seeds=50, progress=progress, **PARTS)
    assert seen == [1, 2, 3]


def test_unknown_faults_are_named() -> None:
    with pytest.raises(ValueError, match="no such fault: earthquake"):
        Faults(1, ["drop", "earthquake"])


def test_a_run_has_about_half_of_the_faults_and_heals() -> None:
    sizes = [len(Faults(seed).enabled) for seed in range(200)]
    assert len(FAULTS) * 0.45 < sum(sizes) / len(sizes) < len(FAULTS) * 0.55
    faults = Faults(3)
    faults.heal()
    assert not any(faults.strikes(name, 1.0) for name in FAULTS)
    assert not faults.counts


class Forgetful(FifoLane):
    """Loses what is put back."""

    def restore(self, message: Message) -> None:
        pass


class Newest(FifoLane):
    """Last in, first out."""

    def take(self) -> Message | None:
        return self._waiting.pop() if self._waiting else None


class Choosy(FifoLane):
    """Refuses as full what it does not like."""

    def offer(self, message: Message) -> RouteResult:
        return super().offer(message) if len(self) < 2 else RouteResult.FULL


class Lanes:
    """Makes lanes of one class."""

    def __init__(self, kind: type[FifoLane]) -> None:
        self.name, self._kind = kind.__name__, kind

    def lane(self, receiver: str, capacity: int, rng: Any) -> FifoLane:
        return self._kind(capacity)


@pytest.mark.parametrize(
    ("kind", "invariant"), [(Forgetful, "harness"), (Newest, "reordered"), (Choosy, "capacity")], ids=lambda x: str(x)
)
def test_a_plugin_that_breaks_its_contract_is_found(kind: Any, invariant: str) -> None:
    outcome = simulate(lanes=Lanes(kind), seeds=10, **PARTS)
    assert outcome.violations[invariant] > 0, outcome.report()
    assert outcome.failed[0] in range(10)
    assert f"seed {outcome.failed[0]}" in outcome.examples[0]
    assert INVARIANTS[invariant] in outcome.report()


class Moody:
    """A topology that is not pure: it forgets the last member every other time."""

    name = "moody"

    def __init__(self) -> None:
        self._times: Iterator[int] = iter(range(10**6))

    def routes(self, roster: Roster) -> Routes:
        routes = Star().routes(roster)
        if next(self._times) % 2:
            return Routes({a: to for a, to in routes.edges.items() if a != roster.ids[-1]})
        return routes


def test_a_topology_that_is_not_pure_is_found() -> None:
    parts = {**PARTS, "topologies": {"moody": Moody(), "flat": Flat()}}
    outcome = simulate(lanes=Fifo(), seeds=20, **parts)
    assert outcome.violations["off_route"] > 0, outcome.report()
