"""What telemetry costs: messages through a router without it and with it, in turns; and one value into the registry.

The router's work is that of bench ``router`` (small payloads, five receivers). ``polled`` is what the framework does: its
counters and lanes are looked at every ``POLL_S``, and messages are not listened to. ``polled after every message`` is
the densest that an episode does, where a message takes milliseconds of model time. The listeners, which an episode's
trace needs whether or not anybody measures, are shown beside it. Rounds take turns, CPU time is this process's, and
the overhead is the median over the pairs of neighbours; ``off again`` is the same work without telemetry once more, so
that its overhead is what the measurement itself cannot tell from nothing.

``parts of a message's life`` runs the same seeded traffic again and again on the machine's clock, with handlers that
take 20 ms: the largest difference between two neighbouring runs in the mean of any part that takes at least a hundredth
of the whole. In virtual time there is none.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import random
import statistics
import time
import timeit
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from ..interfaces import AgentID, Epoch, Member, Message, Roster
from ..ports import LoopClock, SystemClock
from ..telemetry.attribution import PARTS, Attribution
from ..telemetry.meters import RouterMeter
from ..telemetry.p2 import P2
from ..telemetry.registry import Registry
from ..telemetry.tdigest import TDigest

MESSAGES = 20_000
ROUNDS = 21
PAIRS = 6
POLL_S = 0.01
EVERY = 16
CHUNK = 32
"""Messages between two moments at which a timer could come."""
SENDER = AgentID("planner")
RECEIVERS = tuple(AgentID(f"w{i}") for i in range(5))

Row = dict[str, object]
Make = Callable[..., Any]


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``telemetry``. ``args.n`` is the number of messages per round."""
    n = int(getattr(args, "n", None) or MESSAGES)
    make = _routers()
    contenders: dict[str, Callable[[], float]] = {
        "off again": lambda: _off(make, n),
        "polled": lambda: _polled(make, n, POLL_S),
        "polled after every message": lambda: _polled(make, n, 0.0),
        "listened to by nobody in particular": lambda: _listened(make, n, lambda event: None),
        f"listened to, every {EVERY}th attributed": lambda: _listened(make, n, Attribution(EVERY)),
    }
    _off(make, n)
    for name, work in contenders.items():
        off, on = _in_turns(lambda: _off(make, n), work)
        if name == "off again":
            yield _row("router", "off", "cpu per message", round(statistics.median(off) / n * 1e6, 4), "us")
        yield _row("router", name, "cpu per message", round(statistics.median(on) / n * 1e6, 4), "us")
        over = statistics.median(more / less for more, less in zip(on, off, strict=True)) - 1
        yield _row("router", name, "overhead", round(100 * over, 2), "%")
    yield from _values(n)
    apart = _apart_in_real_time(make)
    yield _row(
        "parts of a message's life", "apex", "two runs apart, median", round(100 * statistics.median(apart), 2), "%"
    )
    yield _row("parts of a message's life", "apex", "two runs apart, most", round(100 * max(apart), 2), "%")


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> Row:
    return {"bench": "telemetry", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}


def _in_turns(one: Callable[[], float], other: Callable[[], float]) -> tuple[list[float], list[float]]:
    """What each gives, as neighbours, the first of them now one and now the other."""
    taken: tuple[list[float], list[float]] = ([], [])
    gc.collect()
    gc.freeze()  # what was there before is nobody's to collect between the rounds
    try:
        for turn in range(ROUNDS):
            for which in (0, 1) if turn % 2 else (1, 0):
                gc.collect()
                taken[which].append((one, other)[which]())
    finally:
        gc.unfreeze()
    return taken


def _routers() -> Make:
    from ..plugins import load_plugins
    from ..runtime import Router, RouteTable

    catalog = load_plugins(environ={"APEX_PLUGINS": ""}).catalog
    roster = Roster(tuple(Member(agent, agent) for agent in (SENDER, *RECEIVERS)), SENDER)
    table = RouteTable.compile(catalog.make("topology", "flat"), roster)
    lanes, transport = catalog.make("lane", "fifo"), catalog.make("transport", "inproc")

    def make(**more: Any) -> Router:
        settings: dict[str, Any] = {"clock": SystemClock(), "rng": random.Random(1), **more}
        return Router(table, lanes=lanes, transport=transport, **settings)

    return make


def _message(i: int) -> Message:
    return Message("bench", str(i), SENDER, RECEIVERS[i % 5], Epoch(0), {"text": "x"}, created_ts=0.0)


def _off(make: Make, n: int) -> float:
    """CPU seconds of so many messages, each handled at once."""
    return _cpu(make(), n, lambda: None, CHUNK)


def _polled(make: Make, n: int, every_s: float) -> float:
    begun = time.process_time()
    router = make()
    meter, now = RouterMeter(Registry(), router), time.perf_counter
    due = 0.0

    def poll() -> None:
        nonlocal due
        if now() >= due:
            meter.poll()
            due = now() + every_s

    prepared = time.process_time() - begun
    taken = _cpu(router, n, poll, CHUNK if every_s else 1)
    begun = time.process_time()
    meter.finish()
    return prepared + taken + time.process_time() - begun


def _listened(make: Make, n: int, listener: Callable[[Any], None]) -> float:
    return _cpu(make(on_event=listener), n, lambda: None, CHUNK)


def _cpu(router: Any, n: int, between: Callable[[], None], chunk: int) -> float:
    """CPU seconds of so many messages; ``between`` stands where a timer of the loop would come."""
    begun = time.process_time()
    for first in range(0, n, chunk):
        for i in range(first, min(n, first + chunk)):
            router.send(_message(i))
            router.ack(router.try_lease(RECEIVERS[i % 5]))
        between()
    return time.process_time() - begun


def _values(n: int) -> Iterator[Row]:
    """One value into each of the things that take values."""
    rng = random.Random(1)
    values = [rng.lognormvariate(0, 1) for _ in range(n)]
    registry = Registry()
    counter, histogram = registry.counter("decisions_total", action="stay"), registry.histogram("decision_ms")
    digest, p2, kept = TDigest(), P2(0.95), list[float]()
    takers: dict[str, Callable[[float], object]] = {
        "counter": lambda value: counter.inc(),
        "histogram with digest": histogram.observe,
        "t-digest": digest.add,
        "P2": p2.add,
        "list, to be sorted later": kept.append,
    }
    if importlib.util.find_spec("prometheus_client"):
        from prometheus_client import CollectorRegistry, Histogram

        peer = Histogram("bench", "bench", registry=CollectorRegistry(), buckets=histogram.histogram.bounds)
        takers["prometheus_client histogram"] = peer.observe
    else:
        yield _row("one value", "prometheus_client histogram", "not installed", 1.0, "")
    for name, take in takers.items():
        spent = timeit.timeit("for value in values: take(value)", globals={"values": values, "take": take}, number=1)
        yield _row("one value", name, "time", round(spent / n * 1e9, 1), "ns")
    kept.sort()
    for share in (0.5, 0.95, 0.99):
        exact = kept[max(0, -int(-share * len(kept) // 1) - 1)]
        yield _row("quantiles", "t-digest", f"error of p{100 * share:g}", _apart(digest.quantile(share), exact), "%")
    exact = kept[max(0, -int(-0.95 * len(kept) // 1) - 1)]
    yield _row("quantiles", "P2", "error of p95", _apart(p2.value, exact), "%")


def _apart(found: float, exact: float) -> float:
    return round(100 * abs(found / exact - 1), 4)


def _apart_in_real_time(make: Make) -> list[float]:
    """For each pair of neighbouring runs, the largest difference in the mean of any part that is no trifle."""
    means = [_means(asyncio.run(_life(make))) for _ in range(PAIRS + 1)]
    return [
        max(abs(after[part] / took - 1) for part, took in before.items() if took > sum(before.values()) / 100)
        for before, after in pairwise(means)
    ]


def _means(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {part: statistics.fmean(row["parts_ms"].get(part, 0.0) for row in rows) for part in PARTS}


async def _life(make: Make) -> list[dict[str, Any]]:
    """Sixty messages in bursts, handled one after another in 20 ms each; every tenth is refused once."""
    attribution, rng = Attribution(), random.Random(1)
    router = make(clock=LoopClock(asyncio.get_running_loop()), on_event=attribution, rng=random.Random(2))
    refused: set[str] = set()

    async def handle(agent: AgentID) -> None:
        while (lease := await router.lease(agent)) is not None:
            await asyncio.sleep(0.02)
            name = lease.message.msg_id
            if int(name) % 10 == 0 and name not in refused:
                refused.add(name)
                router.nack(lease, "bench")
            else:
                router.ack(lease)

    async with asyncio.TaskGroup() as group:
        for agent in RECEIVERS:
            group.create_task(handle(agent))
        for i in range(60):
            router.send(_message(i))
            if rng.random() < 0.1:
                await asyncio.sleep(0.05)
        while router.stats.admitted > router.stats.acked:  # noqa: ASYNC110 - until all are handled
            await asyncio.sleep(0.01)
        router.close_episode()
    return attribution.rows
