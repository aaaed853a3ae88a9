"""Message throughput beside what a user would pick instead: one sender, five receivers, each message handled once.

The router does what it always does: size guard, epoch check, route table, time to live, lane, lease,
ack, counters. ``deque`` and ``asyncio.Queue`` are the limits. Repeats of the contenders take turns, so
that a busy machine slows all of them; ``ratio`` is the median over the rounds of ours against theirs.
A text that is sent again is not measured again; the cases "never the same" send a fresh one each time.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ..interfaces import AgentID, Epoch, Member, Message, Roster
from ..ports import SystemClock

MESSAGES = 20_000
REPEATS = 7
RECEIVERS = tuple(AgentID(f"w{i}") for i in range(5))
SENDER = AgentID("planner")

Payload = Callable[[int], dict[str, Any]]
Work = Callable[[int, Payload], None]


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``router``: messages per second, and ours as a ratio of each. ``args.n`` is the number of messages."""
    n = int(getattr(args, "n", None) or MESSAGES)
    large = "line of text\n" * 20_165
    medium = large[:4096]
    cases: dict[str, tuple[Payload, int]] = {
        "small": (lambda i: {"text": "x"}, n),
        "4 KB": (lambda i: {"text": medium}, n),
        "4 KB, never the same": (lambda i: {"text": large[i % 20 : 4096 + i % 20]}, n),
        "256 KB": (lambda i: {"text": large}, n),
        "256 KB, never the same": (lambda i: {"text": large[i % 20 : 262_000 + i % 20]}, max(n // 20, 100)),
    }
    works: dict[str, Work] = {"apex": _apex(), "deque": _deque, "asyncio.Queue": _asyncio_queue}
    if importlib.util.find_spec("autogen_core"):
        works["autogen-core"] = _autogen
    else:
        yield _row("small", "autogen-core", "not installed", 1.0, "")
    for case, (payload, count) in cases.items():
        rates: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(REPEATS):
            for name, work in works.items():
                messages = max(count // 20, 50) if name == "autogen-core" else count
                started = time.perf_counter()
                work(messages, payload)
                rates[name].append(messages / (time.perf_counter() - started))
        for name, seen in rates.items():
            yield _row(case, name, "throughput", round(statistics.median(seen)), "messages/s")
            if name != "apex":
                ratio = statistics.median(a / b for a, b in zip(rates["apex"], seen, strict=True))
                yield _row(case, "apex", f"ratio to {name}", round(ratio, 3), "x")


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "router", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}


def _message(i: int, payload: Payload) -> Message:
    return Message("bench", str(i), SENDER, RECEIVERS[i % 5], Epoch(0), payload(i))


def _apex() -> Work:
    from ..plugins import load_plugins
    from ..runtime import Router, RouteTable

    catalog = load_plugins().catalog
    roster = Roster(tuple(Member(agent, agent) for agent in (SENDER, *RECEIVERS)), SENDER)
    flat, lanes, transport = (
        catalog.make("topology", "flat"),
        catalog.make("lane", "fifo"),
        catalog.make("transport", "inproc"),
    )

    def work(n: int, payload: Payload) -> None:
        async def main() -> None:
            table = RouteTable.compile(flat, roster)
            router = Router(table, lanes=lanes, transport=transport, clock=SystemClock(), rng=random.Random(1))
            seen = 0

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
                while router.audit().waiting:  # noqa: ASYNC110 - the consumers' turn
                    await asyncio.sleep(0)
                router.close_episode()
            _expect(seen, n)

        asyncio.run(main())

    return work


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
