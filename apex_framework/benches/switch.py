"""What a switch takes, by phase, while a team works; what PREPARE gains by doing things at once; what memory it adds.

**Under load** (profile N in real time, but for a wish every 60 ms instead of every second): each contender is a run of
its own. ``journal on disk`` is the whole: probe, warm-ups, and a COMMIT record synced before the new epoch begins.
``limit`` is 3 ms + 2 x the p95 of that run's own syncs. ``journal in memory`` writes the same records and never syncs.
The probe asks those whom it may not believe from before, with ``everybody probed`` all of them every time. ``drain``
waits for messages behind a busy agent, up to the deadline of 50 ms; the others take them along (``migrate``).

**At rest**: the same engine with nobody at work and seven warm-ups of 1 ms each, together and one after the other.

**Memory**: what a switch adds while 5 x 10,000 messages of 1 KB wait and 5 x 1,000 arrive; ``no switch`` is what their
arrival adds anyway. ``copied`` counts payloads that wait as
other objects than before.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..interfaces import AgentID, Member, Roster
from ..ports import LocalFileSystem, SystemClock, SystemFiles, rng
from ..runtime import Router, RouteTable, SwitchEngine, SwitchLog, SwitchResult
from ..runtime.journal import Journal, JournalSwitchLog
from . import switch_memory
from .profiles import from_args, quantile
from .setting import Setting
from .trial import TOPOLOGIES, Parts, Trial

ARTIFACT = "switch_bench"
OPTIONS = frozenset({"n", "seed", "seconds", "profile_file"})
SECONDS = 5.0
EVERY_MS = 60.0
AT_REST = 150
QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))

Row = dict[str, object]


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``switch``. ``args.seconds`` is the time under load per contender (5), ``args.n`` switches at rest."""
    profile = replace(from_args(args, "N"), switch_every_ms=EVERY_MS)
    seconds = float(getattr(args, "seconds", None) or SECONDS)
    seed = int(getattr(args, "seed", None) or 0)
    parts = Parts.built_in("fifo")
    whole = Setting(profile, seed, seconds, relief="", probe=True, warm=True)
    yield from _loaded("journal on disk", whole, parts, Disk())
    yield from _loaded("journal on disk, everybody probed", replace(whole, cache_s=0.0), parts, Disk())
    yield from _loaded("journal on disk, drain", replace(whole, on_busy="drain"), parts, Disk())
    yield from _loaded("journal in memory", whole, parts, Disk(syncs=False))
    yield from _loaded("journal in memory, no probe", replace(whole, probe=False), parts, Disk(syncs=False))
    yield from _loaded("no journal, no probe", replace(whole, probe=False), parts, None)
    count = int(getattr(args, "n", None) or AT_REST)
    for contender, parallel in (("prepare in parallel", True), ("prepare one after the other", False)):
        results = asyncio.run(_at_rest(parts, count, parallel))
        yield from _phases("at rest, 7 warm-ups of 1 ms", contender, results, {})
    waiting, arriving = switch_memory.WAITING, switch_memory.ARRIVING
    for contender, metric, value, unit in switch_memory.rows(parts, waiting, arriving):
        yield _row(f"5 x {waiting:,} waiting, 5 x {arriving:,} arriving", contender, metric, value, unit)


class Disk(LocalFileSystem):
    """The machine's file system with a stopwatch at its syncs; without ``syncs`` it leaves them out."""

    def __init__(self, *, syncs: bool = True) -> None:
        self._syncs = syncs
        self.took_ms: list[float] = []

    def sync(self, fd: int) -> None:
        """Sync, and take the time."""
        if self._syncs:
            began = time.perf_counter()
            super().sync(fd)
            self.took_ms.append((time.perf_counter() - began) * 1000)


@contextmanager
def _journal(disk: Disk | None) -> Iterator[SwitchLog | None]:
    if disk is None:
        yield None
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal.open(Path(folder, "switches.log"), files=SystemFiles(disk)) as journal,
    ):
        disk.took_ms.clear()  # those of opening are not a switch's
        yield JournalSwitchLog(journal)


def _loaded(contender: str, setting: Setting, parts: Parts, disk: Disk | None) -> Iterator[Row]:
    with _journal(disk) as log:
        tally = asyncio.run(Trial(setting, parts, log=log).run())
        syncs_ms = list(disk.took_ms) if disk is not None else []
    case, stamp = f"{setting.profile.name}, a wish every {EVERY_MS:.0f} ms", setting.profile.stamp
    committed = [result for result in tally.switches if result.ok]
    yield from _phases(case, contender, committed, stamp)
    aborts = tally.aborts
    yield _row(case, contender, "committed", len(committed), "switches") | stamp
    yield _row(case, contender, "aborted", sum(aborts.values()), "switches") | {"reasons": dict(aborts)} | stamp
    if disk is not None and syncs_ms:
        p95 = quantile(syncs_ms, 0.95)
        yield _row(case, contender, "syncs per switch", round(len(syncs_ms) / len(committed), 3), "syncs") | stamp
        yield _row(case, contender, "sync p95", round(p95, 3), "ms") | stamp
        yield _row(case, "limit", f"total p95, {contender}", round(3 + 2 * p95, 3), "ms") | stamp


def _phases(case: str, contender: str, results: Sequence[SwitchResult], stamp: dict[str, str]) -> Iterator[Row]:
    phases: dict[str, list[float]] = {}
    for result in results:
        for phase, ms in {**result.stats.phase_ms, "total": result.stats.total_ms}.items():
            phases.setdefault(phase, []).append(ms)
    for phase, taken in phases.items():
        for name, share in QUANTILES:
            yield _row(case, contender, f"{phase} {name}", round(quantile(taken, share), 4), "ms") | stamp


async def _at_rest(parts: Parts, count: int, parallel: bool) -> list[SwitchResult]:
    roster = Roster(tuple(Member(AgentID(f"a{i}"), "coder") for i in range(7)), AgentID("a0"))
    table = RouteTable.compile(parts.topologies["star"], roster)
    router = Router(table, lanes=parts.lanes, transport=parts.transport, clock=SystemClock(), rng=rng("switch"))

    async def warm() -> None:
        await asyncio.sleep(0.001)

    prepare = dict.fromkeys(roster.ids, warm)
    engine = SwitchEngine(router, parts.topologies, clock=SystemClock(), prepare=prepare, parallel_prepare=parallel)
    return [await engine.switch_to(TOPOLOGIES[n % len(TOPOLOGIES)]) for n in range(count)]


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> Row:
    return {
        "bench": "switch",
        "case": case,
        "contender": contender,
        "metric": metric,
        "value": value,
        "unit": unit,
    }
