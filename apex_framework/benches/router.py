"""Message throughput beside what a user would pick instead: one sender, five receivers, each message handled once.

The router does what it always does: size guard, epoch check, route table, time to live, lane, lease,
ack, counters. ``everything on`` adds drr_wred over three classes, dedup, byte caps, a retry budget, the ladder and
a poll of the counters every tenth of the run. ``deque`` and ``asyncio.Queue`` are the limits. Repeats of the contenders
take turns, so that a busy machine slows all of them, and time is the processor's; ``ratio`` is the median over the rounds
of ours against theirs.
A text that is sent again is not measured again; the cases "never the same" send a fresh one each time.

``agents`` shows what a message costs in teams of 3 to 100. ``memory`` runs with everything on and says how much the
process grew in the second half of them, when the dedup stores are full.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import multiprocessing
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from ..interfaces import AgentID, Epoch, Member, Message, MessagePriority, Roster
from ..ports import SystemClock

MESSAGES = 20_000
MEMORY_MESSAGES = 5_000_000
REPEATS = 7
TEAMS = (3, 5, 10, 30, 100)
RECEIVERS = tuple(AgentID(f"w{i}") for i in range(5))
SENDER = AgentID("planner")
CLASSES = tuple(MessagePriority)

Payload = Callable[[int], dict[str, Any]]
Work = Callable[[int, Payload], None]


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``router``: messages per second, ours as a ratio of each, cost by team size, growth of memory.

    ``args.n`` is the number of messages, of the memory case too (20,000 and 1,000,000).
    """
    chosen = getattr(args, "n", None)
    n = int(chosen or MESSAGES)
    large = "line of text\n" * 20_165
    medium = large[:4096]
    cases: dict[str, tuple[Payload, int]] = {
        "small": (lambda i: {"text": "x"}, n),
        "small, everything on": (lambda i: {"text": "x"}, n),
        "4 KB": (lambda i: {"text": medium}, n),
        "4 KB, never the same": (lambda i: {"text": large[i % 20 : 4096 + i % 20]}, n),
        "256 KB": (lambda i: {"text": large}, n),
        "256 KB, never the same": (lambda i: {"text": large[i % 20 : 262_000 + i % 20]}, max(n // 20, 100)),
    }
    works: dict[str, Work] = {"deque": _deque, "asyncio.Queue": _asyncio_queue}
    if importlib.util.find_spec("autogen_core"):
        works["autogen-core"] = _autogen
    else:
        yield _row("small", "autogen-core", "not installed", 1.0, "")
    for case, (payload, count) in cases.items():
        count = min(count, 10 * MESSAGES)  # more than that is for the memory case
        rates = _rates({"apex": _apex(everything="everything" in case), **works}, payload, count)
        for name, seen in rates.items():
            yield _row(case, name, "throughput", round(statistics.median(seen)), "messages/s")
            if name != "apex":
                ratio = statistics.median(a / b for a, b in zip(rates["apex"], seen, strict=True))
                yield _row(case, "apex", f"ratio to {name}", round(ratio, 3), "x")
    yield from _teams(min(n, MESSAGES))
    yield from _memory(int(chosen or MEMORY_MESSAGES))


def _rates(works: dict[str, Work], payload: Payload, count: int) -> dict[str, list[float]]:
    """Messages per second of each contender, one for every round."""
    rates: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(REPEATS):
        for name, work in works.items():
            messages = max(count // 20, 50) if name == "autogen-core" else count
            started = time.process_time()
            work(messages, payload)
            rates[name].append(messages / (time.process_time() - started))
    return rates


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "router", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}


def _message(i: int, payload: Payload) -> Message:
    return Message("bench", str(i), SENDER, RECEIVERS[i % 5], Epoch(0), payload(i), CLASSES[i % 3])


def _make(receivers: tuple[AgentID, ...], *, everything: bool) -> Callable[[], Any]:
    """Makes routers over a flat team of one sender and these receivers."""
    from ..plugins import load_plugins
    from ..runtime import Router, RouteTable
    from ..runtime.dedup import DEDUP_CAP
    from ..runtime.pressure import RetryBudget, Throttle

    catalog = load_plugins().catalog
    roster = Roster(tuple(Member(agent, agent) for agent in (SENDER, *receivers)), SENDER)
    flat, transport = catalog.make("topology", "flat"), catalog.make("transport", "inproc")
    lanes = catalog.make("lane", "drr_wred" if everything else "fifo")
    options: dict[str, Any] = {}
    if everything:
        options = {"dedup_cap": DEDUP_CAP, "lane_bytes": 1 << 26, "total_bytes": 1 << 28}
        options |= {"retry_budget": RetryBudget(), "throttle": Throttle()}

    def make() -> Any:
        table = RouteTable.compile(flat, roster)
        clock, rng = SystemClock(), random.Random(1)
        return Router(table, lanes=lanes, transport=transport, clock=clock, rng=rng, **options)

    return make


def _apex(*, everything: bool) -> Work:
    make = _make(RECEIVERS, everything=everything)

    def work(n: int, payload: Payload) -> None:
        asyncio.run(_handled(make(), n, payload, everything=everything))

    return work


async def _handled(router: Any, n: int, payload: Payload, *, everything: bool) -> None:
    """Send so many messages while every receiver handles its own."""
    seen, poll = 0, max(n // 10, 1)

    async def consume(agent: AgentID) -> None:
        nonlocal seen
        while (lease := router.try_lease(agent) or await router.lease(agent)) is not None:
            seen += 1
            router.ack(lease)

    async with asyncio.TaskGroup() as group:
        for agent in RECEIVERS:
            group.create_task(consume(agent))
        for i in range(n):
            while not router.send(_message(i, payload)):  # noqa: ASYNC110 - full: as with a bounded queue
                await asyncio.sleep(0)
            if everything and not i % poll:
                router.stats  # noqa: B018 - what telemetry does
        while router.audit().waiting:  # noqa: ASYNC110 - the consumers' turn
            await asyncio.sleep(0)
        router.close_episode()
    _expect(seen, n)


def _teams(n: int) -> Iterator[dict[str, object]]:
    """What a message costs, sent, leased and acknowledged, in teams of different size."""
    parts = {}
    for size in TEAMS:
        receivers = tuple(AgentID(f"w{i}") for i in range(size - 1))
        messages = [Message("bench", str(i), SENDER, r, Epoch(0), {"text": "x"}) for i, r in enumerate(receivers)]
        parts[size] = (_make(receivers, everything=True)(), receivers, messages)
    taken: dict[int, list[float]] = {size: [] for size in TEAMS}
    for _ in range(REPEATS):
        for size, (router, receivers, messages) in parts.items():
            rounds = max(n // len(receivers), 1)
            started = time.process_time()
            for _ in range(rounds):
                for message in messages:
                    router.send(message)
                for receiver in receivers:
                    router.ack(router.try_lease(receiver))
            taken[size].append((time.process_time() - started) / (rounds * len(receivers)) * 1e9)
    for size, seen in taken.items():
        yield _row(f"{size} agents", "apex", "cost per message", round(statistics.median(seen)), "ns")
    ratio = statistics.median(a / b for a, b in zip(taken[TEAMS[-1]], taken[TEAMS[0]], strict=True))
    yield _row(f"{TEAMS[-1]} agents", "apex", f"ratio to {TEAMS[0]} agents", round(ratio, 3), "x")


def _memory(n: int) -> Iterator[dict[str, object]]:
    """How much the peak of a process that does nothing else grows in the second half."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        early, late, rate = fresh.submit(_pass_through, n).result()
    case = f"memory, {n:,} messages"
    yield _row(case, "apex", "peak after half of them", round(early, 1), "MB")
    yield _row(case, "apex", "growth of the peak after that", round(late - early, 2), "MB")
    yield _row(case, "apex", "throughput", round(rate), "messages/s")


def _pass_through(n: int) -> tuple[float, float, float]:
    """Send and handle so many messages one by one: peak in MB after half of them and after all, messages per second."""
    router, half, early = _make(RECEIVERS, everything=True)(), n // 2, 0.0
    started = time.process_time()
    for i in range(n):
        router.send(_message(i, lambda i: {"text": "x"}))
        router.ack(router.try_lease(RECEIVERS[i % 5]))
        if i == half:
            early = _peak_mb()
    elapsed = time.process_time() - started
    _expect(router.audit().acked, n)
    return early, _peak_mb(), n / elapsed


def _peak_mb() -> float:
    """Largest resident size of this process so far."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _deque(n: int, payload: Payload) -> None:
    queues: list[deque[Message]] = [deque() for _ in RECEIVERS]
    for i in range(n):
        queues[i % 5].append(_message(i, payload))
    seen = 0
    for queue in queues:
        while queue:
            queue.popleft()
            seen += 1
    _expect(seen, n)


def _asyncio_queue(n: int, payload: Payload) -> None:
    async def main() -> None:
        queues: list[asyncio.Queue[Message | None]] = [asyncio.Queue(10_000) for _ in RECEIVERS]
        seen = 0

        async def consume(queue: asyncio.Queue[Message | None]) -> None:
            nonlocal seen
            while await queue.get() is not None:
                seen += 1

        async with asyncio.TaskGroup() as group:
            for queue in queues:
                group.create_task(consume(queue))
            for i in range(n):
                await queues[i % 5].put(_message(i, payload))
            for queue in queues:
                await queue.put(None)
        _expect(seen, n)

    asyncio.run(main())


def _autogen(n: int, payload: Payload) -> None:
    from autogen_core import AgentId, BaseAgent, MessageContext, SingleThreadedAgentRuntime  # type: ignore[import-not-found,unused-ignore]  # a peer, not a dependency

    logging.getLogger("autogen_core").setLevel(logging.ERROR)
    seen = 0

    class Receiver(BaseAgent):  # type: ignore[misc,unused-ignore]  # its base is unknown where the peer is missing
        def __init__(self) -> None:
            super().__init__("receiver")

        async def on_message_impl(self, message: Any, ctx: MessageContext) -> None:
            nonlocal seen
            seen += 1

    async def main() -> None:
        runtime = SingleThreadedAgentRuntime()
        await Receiver.register(runtime, "receiver", Receiver)
        runtime.start()
        for first in range(0, n, 500):
            numbers = range(first, min(n, first + 500))
            async with asyncio.TaskGroup() as group:
                for i in numbers:
                    sending = runtime.send_message(_message(i, payload), AgentId("receiver", RECEIVERS[i % 5]))
                    group.create_task(sending)
        await runtime.stop_when_idle()
        _expect(seen, n)

    asyncio.run(main())


def _expect(seen: int, n: int) -> None:
    if seen != n:
        raise AssertionError(f"{seen} of {n} messages were handled")
