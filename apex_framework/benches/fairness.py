"""Who is served, who is refused, and who pays for a slow neighbour; in virtual time, so exactly.

``shares`` keeps three classes waiting and counts whom ``drr_wred`` serves, beside the configured 8:3:1 and beside
``fifo``. ``refused`` compares early refusals with their curve. ``one of seven`` sends to seven agents at 80 % of what each
can handle, with one of them stuck, and counts what the other six handle, beside a run with nobody stuck. ``occupancy``
is that run's histogram of how full the lanes were.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..interfaces import AgentID, Epoch, LaneDiscipline, Member, Message, MessagePriority, Roster, RouteResult
from ..ports import LoopClock
from ..timeloop import run as in_virtual_time

MESSAGES = 24_000
SECONDS = 20.0
CAPACITY = 1000
HANDLING_S = 0.001
WEIGHTS = {MessagePriority.FINAL: 8, MessagePriority.DRAFT: 3, MessagePriority.CRITIC: 1}
OCCUPANCIES = (0.5, 0.7, 0.9, 0.99)
AGENTS = tuple(AgentID(f"a{i}") for i in range(7))
STUCK = AGENTS[-1]
BINS = (0.0, 0.01, 0.1, 0.5, 0.6, 0.8, 0.95, 1.0)


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``fairness``. ``args.n`` messages are served or offered, ``args.seconds`` is how long agents work."""
    from ..plugins import load_plugins

    n = int(getattr(args, "n", None) or MESSAGES)
    seconds = float(getattr(args, "seconds", None) or SECONDS)
    catalog = load_plugins().catalog
    for name in ("drr_wred", "fifo"):
        yield from _shares(catalog.make("lane", name), n)
    yield from _refused(catalog.make("lane", "drr_wred"), n)
    yield from _one_of_seven(catalog, seconds)


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "fairness", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}


def _message(sender: AgentID, receiver: AgentID, number: int, priority: MessagePriority) -> Message:
    return Message("bench", str(number), sender, receiver, Epoch(0), {"text": "x"}, priority, created_ts=0.0)


def _shares(lanes: LaneDiscipline, n: int) -> Iterator[dict[str, object]]:
    """Service while every class keeps a backlog: whatever is taken comes back at the end of its class."""
    lane, served = lanes.lane("a", CAPACITY, random.Random(1)), Counter[MessagePriority]()
    for number in range(300):
        lane.restore(_message(AGENTS[0], AGENTS[1], number, list(MessagePriority)[number % 3]))
    for _ in range(n):
        message = lane.take()
        assert message is not None
        served[message.priority] += 1
        lane.restore(message)
    for priority, weight in WEIGHTS.items():
        off = served[priority] / n / (weight / sum(WEIGHTS.values())) - 1
        yield _row("shares", lanes.name, f"{priority} of 12", round(12 * served[priority] / n, 4), "messages")
        yield _row("shares", lanes.name, f"{priority} off its weight", round(100 * off, 3), "%")


def _refused(lanes: LaneDiscipline, n: int) -> Iterator[dict[str, object]]:
    """Early refusals at a constant occupancy, beside the curve's probability."""
    curves = {c.name: c.refusal for c in getattr(lanes, "classes", ())}
    for occupancy in OCCUPANCIES:
        for priority in MessagePriority:
            lane, refused = lanes.lane("a", CAPACITY, random.Random(1)), 0
            for number in range(round(occupancy * CAPACITY)):
                lane.restore(_message(AGENTS[0], AGENTS[1], number, priority))
            for number in range(n):
                if lane.offer(_message(AGENTS[0], AGENTS[1], number, priority)) is RouteResult.ENQUEUED:
                    lane.take()
                else:
                    refused += 1
            case = f"refused at {occupancy:.0%}"
            yield _row(case, lanes.name, priority.value, round(100 * refused / n, 3), "%")
            yield _row(case, "curve", priority.value, round(100 * curves[priority](occupancy), 3), "%")


def _one_of_seven(catalog: Any, seconds: float) -> Iterator[dict[str, object]]:
    handled, waiting, bins = {}, {}, Counter[float]()
    for stuck in (False, True):
        router, done, seen = in_virtual_time(_load(catalog, seconds, stuck), seed=1, shuffle=False)
        handled[stuck] = [done[agent] for agent in AGENTS[:-1]]
        waiting[stuck] = router.waiting(STUCK)
        router.audit()
        bins = seen if stuck else bins
    ratios = [sick / well for sick, well in zip(handled[True], handled[False], strict=True)]
    case = "one of seven stuck"
    yield _row(case, "nobody stuck", "handled by each other", round(min(handled[False]) / seconds, 1), "messages/s")
    yield _row(case, "apex", "handled by each other", round(min(handled[True]) / seconds, 1), "messages/s")
    yield _row(case, "apex", "least ratio of the other six", round(min(ratios), 4), "x")
    yield _row(case, "apex", "waiting for the stuck one", waiting[True], "messages")
    yield _row(case, "limit", "waiting for the stuck one", CAPACITY, "messages")
    total = sum(bins.values())
    for low in BINS:
        yield _row("occupancy", "apex", f"from {low:.0%}", round(100 * bins[low] / total, 2), "% of samples")


async def _load(catalog: Any, seconds: float, stuck: bool) -> tuple[Any, Counter[AgentID], Counter[float]]:
    """Everybody is sent to at 0.8 of capacity, all classes alike; lanes are sampled every 10 ms."""
    from ..runtime import Router, RouteTable

    loop = asyncio.get_running_loop()
    roster = Roster(tuple(Member(agent, agent) for agent in AGENTS), AGENTS[0])
    table = RouteTable.compile(catalog.make("topology", "flat"), roster)
    lanes, transport = catalog.make("lane", "drr_wred"), catalog.make("transport", "inproc")
    clock, rng = LoopClock(loop), random.Random(1)
    router = Router(table, lanes=lanes, transport=transport, clock=clock, rng=rng, capacity=CAPACITY)
    done, seen = Counter[AgentID](), Counter[float]()

    async def work(agent: AgentID) -> None:
        while (lease := await router.lease(agent)) is not None:
            if stuck and agent == STUCK:
                await loop.create_future()
            await asyncio.sleep(HANDLING_S)
            router.ack(lease)
            done[agent] += 1

    number = 0
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(work(agent)) for agent in AGENTS]
        while loop.time() < seconds:
            for place, agent in enumerate(AGENTS):
                number += 1
                priority = list(MessagePriority)[number % 3]
                router.send(_message(AGENTS[place - 1], agent, number, priority))
            if not number % (8 * len(AGENTS)):
                seen.update(max(low for low in BINS if low <= share) for share in router.stats.lanes.values())
            await asyncio.sleep(HANDLING_S / 0.8)
        for worker in workers:
            worker.cancel()
    return router, done, seen
