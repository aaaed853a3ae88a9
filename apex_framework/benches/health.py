"""The probe before a switch: what it takes, what it spares; and the pin under a controller that is too slow.

**Probe** (real time): seven agents that answer at once, that take 1 ms, one that is stuck, and all believed from before.
``limit`` is ``asyncio.gather`` over the same pings. A stuck agent costs the probe's whole time, 20 ms.

**Pre-validation** (profile S, virtual time, paired seeds): the same load, sickness and wishes with the probe and
without. ``aborts`` are switches that began and failed; fewer of them are worth something only where no fewer commit, so
both stand here. With ``drain`` a switch aborts when messages wait behind a busy agent at the deadline; with ``migrate``
when an agent that is stuck cannot warm up. A wish that fails the probe waits and is tried again; one that aborts is lost
unless the controller repeats it. ``probe on`` believes an answer for 10 s, but not of a member that has had a message
for more than 50 ms; ``probe on, always believed`` believes it of everybody, ``probe on, never believed`` of nobody.

**Pin** (virtual time): after some healthy decisions the controller takes 15 to 30 ms for each, then heals.
``decisions`` count from the first slow one to the pin, and from the first fast one to the unpin. Every seed runs twice.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..interfaces import AgentID, Member, Roster
from ..ports import LoopClock, SystemClock, rng
from ..runtime import Coordinator, HealthCache, HealthPin, Router, RouteTable, SwitchEngine, TopologyHealthProbe
from ..timeloop import VirtualTimeLoop
from ..timeloop import run as run_virtual
from .profiles import from_args, quantile
from .setting import Setting
from .trial import TOPOLOGIES, Parts, Tally, Trial

OPTIONS = frozenset({"n", "seed", "seeds", "seconds", "profile_file"})
PROBES = 500
SEEDS = 4
PIN_SEEDS = 100
WINDOW, HEALTHY_WINDOWS = 20, 3
SLOW_FROM, SLOW_UNTIL, DECISIONS = 30, 90, 240

_QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
_BELIEFS = (
    ("probe on", 10.0, 0.05),
    ("probe on, always believed", 10.0, 3600.0),
    ("probe on, never believed", 0.0, 3600.0),
)
"""(contender, seconds for which an answer is believed, seconds of work after which it is not)."""

Row = dict[str, object]


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``health``. ``args.n`` probes (500); ``args.seeds`` (4) of ``args.seconds`` under load each."""
    parts = Parts.built_in("fifo")
    yield from asyncio.run(_probes(parts, int(getattr(args, "n", None) or PROBES)))
    profile = from_args(args, "S")
    first, count = int(getattr(args, "seed", None) or 0), int(getattr(args, "seeds", None) or SEEDS)
    whole = Setting(profile, seconds=getattr(args, "seconds", None), relief="", warm=True)
    stamp, seeds = profile.stamp, range(first, first + count)
    for on_busy in ("drain", "migrate"):
        case, setting = f"S, {on_busy}, {count} seeds", replace(whole, on_busy=on_busy)
        off = _Arm(_trials(setting, parts, seeds, 0.0))
        yield from (row | stamp for row in off.rows(case, "probe off", None))
        for contender, cache_s, doubt_s in _BELIEFS if on_busy == "migrate" else _BELIEFS[:1]:
            on = _Arm(_trials(replace(setting, probe=True, cache_s=cache_s), parts, seeds, doubt_s))
            yield from (row | stamp for row in on.rows(case, contender, off))
    yield from _pins(parts, range(first, first + PIN_SEEDS))


class _Pinged:
    def __init__(self, answers_after_s: float = 0.0) -> None:
        self._answers_after_s = answers_after_s

    async def ping(self) -> None:
        await asyncio.sleep(self._answers_after_s)


async def _probes(parts: Parts, n: int) -> list[Row]:
    router, roster = _team(parts, SystemClock())
    well = {agent: _Pinged() for agent in roster.ids}
    slow = {agent: _Pinged(0.001) for agent in roster.ids}
    stuck = {**well, roster.ids[3]: _Pinged(3600.0)}
    rows: list[Row] = []

    async def measure(case: str, contender: str, work: Callable[[], Awaitable[object]], times: int) -> None:
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            await work()
            taken.append((time.perf_counter() - began) * 1000)
        rows.extend(_row(case, contender, name, round(quantile(taken, share), 4), "ms") for name, share in _QUANTILES)

    for case, agents, times in (
        ("7 agents", well, n),
        ("7 agents, 1 ms each", slow, max(1, n // 5)),
        ("7 agents, one stuck", stuck, max(1, n // 20)),
    ):
        probe = _probe(router, parts, agents, ttl_s=0.0)
        await measure(case, "apex", lambda probe=probe: probe.validate("chain"), times)  # type: ignore[misc]  # bound now
        if agents is not stuck:
            pings = [agent.ping for agent in agents.values()]
            await measure(case, "limit", lambda pings=pings: asyncio.gather(*(p() for p in pings)), times)  # type: ignore[misc]  # bound now
    believed = _probe(router, parts, slow, ttl_s=10.0)
    await believed.validate("chain")
    await measure("7 agents, believed", "apex", lambda: believed.validate("chain"), n)
    share = believed.cache.hits / (believed.cache.hits + believed.cache.misses)
    rows.append(_row("7 agents, believed", "apex", "cache hits", round(share, 4), ""))
    return rows


def _probe(router: Router, parts: Parts, agents: Any, *, ttl_s: float) -> TopologyHealthProbe:
    clock = SystemClock()
    return TopologyHealthProbe(router, parts.topologies, clock=clock, agents=agents, cache=HealthCache(clock, ttl_s))


def _team(parts: Parts, clock: Any) -> tuple[Router, Roster]:
    roster = Roster(tuple(Member(AgentID(f"a{i}"), "coder") for i in range(7)), AgentID("a0"))
    table = RouteTable.compile(parts.topologies["star"], roster)
    return Router(table, lanes=parts.lanes, transport=parts.transport, clock=clock, rng=rng("health")), roster


class _Doubting(Trial):
    """A trial whose probe asks those again who have been busy for a while."""

    def __init__(self, setting: Setting, parts: Parts, doubt_s: float) -> None:
        super().__init__(setting, parts)
        self._doubt_s = doubt_s

    def _coordinated(self, clock: LoopClock) -> Coordinator:
        coordinator = super()._coordinated(clock)
        if coordinator._probe is not None:
            coordinator._probe._doubt_s = self._doubt_s
        return coordinator


def _trials(setting: Setting, parts: Parts, seeds: Sequence[int], doubt_s: float) -> list[Tally]:
    return [
        run_virtual(_Doubting(replace(setting, seed=seed), parts, doubt_s).run(), seed=seed, shuffle=True)
        for seed in seeds
    ]


class _Arm:
    """What happened to the switches of several trials."""

    def __init__(self, tallies: Sequence[Tally]) -> None:
        self.reasons: Counter[str] = sum((tally.aborts for tally in tallies), Counter())
        self.deferred: Counter[str] = sum((tally.deferred for tally in tallies), Counter())
        self.aborts = sum(self.reasons.values())
        self.commits = sum(tally.committed for tally in tallies)

    def rows(self, case: str, name: str, off: _Arm | None) -> Iterator[Row]:
        """Counts, and what changed against the arm without the probe."""
        yield _row(case, name, "aborts", self.aborts, "switches") | {"reasons": dict(self.reasons)}
        yield _row(case, name, "commits", self.commits, "switches")
        waits = sum(self.deferred.values())
        yield _row(case, name, "wishes that had to wait", waits, "wishes") | {"reasons": dict(self.deferred)}
        if off is not None and off.aborts:
            yield _row(case, name, "change of aborts", round(self.aborts / off.aborts - 1, 4), "")
            yield _row(case, name, "commits more", self.commits - off.commits, "switches")


def _pins(parts: Parts, seeds: Sequence[int]) -> Iterator[Row]:
    case = f"controller of 15 to 30 ms, windows of {WINDOW}, {len(seeds)} seeds"
    traces = [run_virtual(_pinned(parts, seed), seed=seed) for seed in seeds]
    again = [run_virtual(_pinned(parts, seed), seed=seed) for seed in seeds]
    yield _row(case, "apex", "seeds that pinned and healed", sum(len(turns) == 2 for turns, _ in traces), "seeds")
    whole = [turns for turns, _ in traces if len(turns) == 2]
    for metric, index, since in (("decisions to the pin", 0, SLOW_FROM), ("decisions to the unpin", 1, SLOW_UNTIL)):
        counts = [turns[index] - since + 1 for turns in whole]
        yield _row(case, "apex", f"{metric}, mean", round(statistics.fmean(counts), 2), "decisions")
        yield _row(case, "apex", f"{metric}, max", max(counts), "decisions")
    yield _row(case, "limit", "decisions to the pin, max", WINDOW, "decisions")
    yield _row(case, "apex", "attempts to commit the pin, max", max(attempts for _, attempts in traces), "attempts")
    same = sum(a == b for a, b in zip(traces, again, strict=True))
    yield _row(case, "apex", "seeds that ran the same twice", same / len(seeds), "")


async def _pinned(parts: Parts, seed: int) -> tuple[list[int], int]:
    """Decisions at which the pin turned, and attempts to bring its topology into force, under traffic."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    draws, clock = random.Random(seed), LoopClock(loop)
    router, roster = _team(parts, clock)
    engine = SwitchEngine(router, parts.topologies, clock=clock)
    pin = HealthPin(TOPOLOGIES, clock=clock, window=WINDOW, healthy_windows=HEALTHY_WINDOWS)
    coordinator = Coordinator(engine, pin=pin)
    turns: list[int] = []
    attempts = 0

    async def work(agent: AgentID) -> None:
        while (lease := await router.lease(agent)) is not None:
            await asyncio.sleep(draws.random() * 0.02)
            router.ack(lease)

    def decide(number: int) -> str:
        loop.jump(draws.uniform(0.015, 0.030) if SLOW_FROM <= number < SLOW_UNTIL else draws.random() * 0.001)
        return draws.choice(TOPOLOGIES)

    async with asyncio.TaskGroup() as group:
        for agent in roster.ids:
            group.create_task(work(agent))
        for number in range(DECISIONS):
            for _ in range(2):
                sender, receiver = draws.sample(roster.ids, 2)
                router.send(_message(number, sender, receiver))
            was = pin.pinned
            wish = pin.timed(lambda number=number: decide(number))  # type: ignore[misc]  # bound now
            if pin.pinned != was:
                turns.append(number)
            coordinator.step()
            attempts += await coordinator.hold() is not None
            await coordinator.request(wish)
            await asyncio.sleep(0.005)
        router.close_episode()
    router.audit()
    return turns, attempts


def _message(number: int, sender: AgentID, receiver: AgentID) -> Any:
    from ..interfaces import Epoch, Message

    return Message("bench", f"m{number}", sender, receiver, Epoch(0), {"text": "x"}, audience=receiver)


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> Row:
    return {
        "bench": "health",
        "case": case,
        "contender": contender,
        "metric": metric,
        "value": value,
        "unit": unit,
    }
