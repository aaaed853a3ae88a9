"""Deterministic simulation: the production runtime under seeded load and faults, judged after every callback.

In a test of your own lane, topology or transport::

    from apex_framework.testing import simulate

    def test_my_lane() -> None:
        outcome = simulate(lanes=MyLanes(), seeds=200)
        assert not outcome.violations, outcome.report()

Each seed is a team of 2 to 7 agents with a workload, an interleaving and faults of its own; the same seed gives the same
run, callback by callback. What is checked is listed in ``invariants.INVARIANTS``, what goes wrong in ``faults.FAULTS``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping

from ..errors import DeadlockError
from ..interfaces import LaneDiscipline, Team, Topology, Transport
from ..ports import Ids, VirtualEffects, derive_seed
from ..runtime.journal import Journal, SwitchState, recovered_switch
from ..timeloop import run
from .chaos import TEN_YEARS_S, TICK_S, ChaosClock
from .character import Character, Parts
from .disk import Crash, SimulatedDisk
from .faults import FAULTS, Faults
from .invariants import Findings
from .outcome import Outcome, words
from .spending import Spending
from .trace import Trace
from .world import World


class Simulation:
    """One seed: a team, its load and its faults, from the start to the end, through crashes."""

    def __init__(self, seed: int, parts: Parts, *, faults: Iterable[str] = FAULTS, steps: int = 200) -> None:
        self.seed, self.parts, self.steps = seed, parts, steps
        self.faults = Faults(seed, faults)
        self.trace = Trace()
        self.outcome = Outcome(seeds=1)
        self._rng = random.Random(derive_seed("simulation", seed))
        self._world: World | None = None
        self._task: asyncio.Task[None] | None = None
        self._after: SimulatedDisk | None = None
        self._crash_at: set[int] = set()
        self._findings = Findings()

    def run(self) -> Outcome:
        """Simulate; the same seed gives the same outcome, to the last callback."""
        tick_s = 0.0
        if "equal_ticks" in self.faults.enabled:
            self.faults.counts["equal_ticks"] += 1
            tick_s = TICK_S
        if "crash" in self.faults.enabled:
            self._crash_at = {self._rng.randint(5, self.steps) for _ in range(self._rng.randint(1, 2))}
        try:
            run(self._main(), seed=self.seed, shuffle=True, observe=self._observe, tick_s=tick_s)
        except DeadlockError as error:
            self._findings.blame("liveness", str(error))
        except Exception as error:  # noqa: BLE001 - whatever the code under test raises is a finding
            self._findings.blame("harness", words(error))
        return self.outcome.closed(self.seed, self._findings, self.faults, self.trace)

    def _observe(self, handle: asyncio.Handle, now: float) -> None:
        self.trace.callback(handle, now)
        world = self._world
        if world is None or not world.alive:
            return
        world.check(now)
        self.outcome.steps += 1
        if self.trace.steps >= self.steps:
            if not world.stopping:
                world.stopping = True
                self.faults.heal()
        elif self.trace.steps in self._crash_at:
            self.faults.counts["crash"] += 1
            self._die()

    def _die(self) -> None:
        """The process is gone: what follows in this life happens to a ghost, on a disk that nobody will read."""
        world = self._world
        if world is None or not world.alive or self._task is None:
            return
        world.alive = False
        self._collect()
        keep = self._rng.randint(0, max(1, world.disk.unsynced))
        self._after = world.disk.crash(self._rng.choice(list(Crash)), keep=keep, seed=self._rng.getrandbits(30))
        self._task.cancel()

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        clock = ChaosClock(loop)
        character = Character.draw(self._rng, self.parts.topologies, self.faults)
        spending = Spending(self._findings, self.faults, self._rng, clock)
        ids = Ids("m")
        disk = SimulatedDisk(seed=self.seed)
        gremlin = loop.create_task(self._gremlin(clock))
        before: World | None = None
        while True:
            journal = Journal.open(disk.root / "journal", files=disk, effects=VirtualEffects())
            found = recovered_switch(journal.records)
            if before is not None:
                self._judge_recovery(before, found)
            self._collect()
            self._findings = spending.findings = Findings()
            self.outcome.lives += 1
            self._world = world = World(
                self.parts,
                character,
                self.faults,
                self._rng,
                clock,
                self._findings,
                self.trace,
                spending,
                journal,
                disk,
                self._die,
                found,
                ids,
            )
            world.stopping = self.trace.steps >= self.steps
            self._task = task = loop.create_task(world.run())
            await asyncio.wait([task])
            self._count(world)
            if world.alive:
                break
            if not task.cancelled():
                task.exception()  # a ghost's end is of no interest
            assert self._after is not None
            before, disk = world, self._after
        gremlin.cancel()
        world.alive = False
        task.result()
        world.finish()
        spending.finish()
        disk.heal()

    def _judge_recovery(self, before: World, found: SwitchState | None) -> None:
        possible = [before.committed] + [before.in_doubt] * (before.in_doubt is not None)
        if found not in possible:
            self._findings.blame("durable", f"after the crash {found} is in force, not one of {possible}")

    def _collect(self) -> None:
        """What was found in a life; what its ghost still does counts no more."""
        findings, self._findings = self._findings, Findings()
        findings.closed = True
        self.outcome.violations.update(findings.violations)
        self.outcome.examples += findings.examples

    def _count(self, world: World) -> None:
        outcome, model = self.outcome, world.model
        outcome.events += model.events
        outcome.acked += model.acked
        outcome.dead += model.dead.total()
        outcome.switches += world.switches
        outcome.cancelled += world.cancelled
        outcome.committed += world.engine.committed
        outcome.aborted.update(world.engine.aborted)
        outcome.sent += model.admitted
        outcome.migrated += world.router.stats.migrated

    async def _gremlin(self, clock: ChaosClock) -> None:
        """Plays with the clocks."""
        rng, faults = self._rng, self.faults
        while True:
            await asyncio.sleep(rng.random() * 0.1)
            if faults.strikes("wall_jump", 0.3):
                clock.jump_wall(rng.uniform(-TEN_YEARS_S, TEN_YEARS_S))
            if faults.strikes("clock_pause", 0.2):
                clock.suspend(rng.random() * 3600, counted=False)
            if faults.strikes("clock_leap", 0.2):
                clock.suspend(rng.random() ** 4 * 3600, counted=True)
            if not faults.enabled:
                return


def simulate(
    *,
    topologies: Mapping[str, Topology] | None = None,
    lanes: LaneDiscipline | None = None,
    transport: Transport | None = None,
    team: Team | None = None,
    seeds: int = 100,
    seed: int = 0,
    steps: int = 200,
    faults: Iterable[str] = FAULTS,
    progress: Callable[[Outcome], None] | None = None,
) -> Outcome:
    """Run seeds ``seed``, ``seed + 1``, …: each for at least ``steps`` callbacks with faults, then without until its end.

    What is not given is the installation's own: topologies star, chain and flat, lane ``fifo``, transport ``inproc``.
    With a ``team`` its agents do the work, in a real session, and are judged too; ``steps`` do not bound that.
    ``faults`` are those allowed, by default all; each seed has about half of them. ``progress`` hears the
    outcome so far after each seed; what it raises ends the simulation.

    Raises ValueError for less than one seed or step, or no topology, and TypeError for a class instead of an instance.
    """
    if seeds < 1 or steps < 1:
        raise ValueError(f"seeds is {seeds} and steps {steps}: give at least 1 of both")
    _instances(team=team)
    parts = default_parts(topologies, lanes, transport)
    allowed = frozenset(faults)
    total = Outcome()
    for number in range(seed, seed + seeds):
        if team is None:
            total.add(Simulation(number, parts, faults=allowed, steps=steps).run())
        else:
            from .rehearsal import Rehearsal

            total.add(Rehearsal(number, parts, team, faults=allowed).run())
        if progress is not None:
            progress(total)
    return total


def default_parts(
    topologies: Mapping[str, Topology] | None = None,
    lanes: LaneDiscipline | None = None,
    transport: Transport | None = None,
    *,
    lane: str = "fifo",
) -> Parts:
    """What is given, and the installation's own for the rest; ``lane`` names its lane discipline."""
    if topologies is None or lanes is None or transport is None:
        from ..plugins import load_plugins

        catalog = load_plugins().catalog
        topologies = (
            topologies
            if topologies is not None
            else {name: catalog.make("topology", name) for name in ("star", "chain", "flat")}
        )
        lanes = lanes if lanes is not None else catalog.make("lane", lane)
        transport = transport if transport is not None else catalog.make("transport", "inproc")
    if not topologies:
        raise ValueError("topologies is empty: give at least one, or leave it out")
    _instances(lanes=lanes, transport=transport, **{f"topologies[{name!r}]": t for name, t in topologies.items()})
    return Parts(topologies, lanes, transport)


def _instances(**parts: object) -> None:
    for name, part in parts.items():
        if isinstance(part, type):
            raise TypeError(f"{name} is the class {part.__name__}: pass an instance, {part.__name__}(...)")
