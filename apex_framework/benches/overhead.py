"""CPU that the framework itself takes per episode, without solver and tests, as messages grow in number.

The team is two agents that pass one message to and fro; every handled message makes one model call to a scripted
backend. Workspace and judge do nothing. Everything else is what a real episode goes through: router, lanes, epoch
gate, budget, session, controller after every step, records. ``asyncio.Queue`` is the limit: the same messages between
two coroutines and nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
from collections.abc import Callable, Iterator, Sequence
from time import process_time
from typing import Any

SIZES = (25, 50, 100, 200, 400)
ROUNDS = 5


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``overhead``: CPU per episode and message, and the straight line through it.

    ``args.n`` is the number of episodes per size; the median counts. CPU is this process's, so other load on the
    machine matters little.
    """
    rounds = max(1, int(getattr(args, "n", None) or ROUNDS))
    contenders: dict[str, Callable[[int], None]] = {"apex": _episode(), "asyncio.Queue": _queues}
    for contender, work in contenders.items():
        cpu = []
        for size in SIZES:
            cpu.append(_cpu_ms(work, size, rounds))
            yield _row(f"{size} messages", contender, "cpu per message", round(cpu[-1] / size, 5), "ms")
        slope, intercept, fit = _line(SIZES, cpu)
        yield _row("straight line", contender, "cpu per further message", round(slope, 5), "ms")
        yield _row("straight line", contender, "cpu per episode at no message", round(intercept, 3), "ms")
        yield _row("straight line", contender, "R squared", round(fit, 5), "")


def _row(case: str, contender: str, metric: str, value: float, unit: str) -> dict[str, object]:
    return {"bench": "overhead", "case": case, "contender": contender, "metric": metric, "value": value, "unit": unit}


def _cpu_ms(work: Callable[[int], None], size: int, rounds: int) -> float:
    """Median CPU milliseconds of one episode, after one that is not counted."""
    work(size)
    taken = []
    for _ in range(rounds):
        gc.collect()
        begun = process_time()
        work(size)
        taken.append((process_time() - begun) * 1000)
    return statistics.median(taken)


def _line(xs: Sequence[int], ys: Sequence[float]) -> tuple[float, float, float]:
    """Least squares: slope, intercept, R squared."""
    slope, intercept = statistics.linear_regression(xs, ys)
    mean = statistics.fmean(ys)
    total = sum((y - mean) ** 2 for y in ys)
    rest = sum((y - intercept - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
    return slope, intercept, 1 - rest / total if total else 1.0


def _queues(messages: int) -> None:
    async def pong(inbox: asyncio.Queue[int], outbox: asyncio.Queue[int]) -> None:
        while (left := await inbox.get()) > 0:
            outbox.put_nowait(left - 1)
        outbox.put_nowait(0)

    async def work() -> None:
        here: asyncio.Queue[int] = asyncio.Queue()
        there: asyncio.Queue[int] = asyncio.Queue()
        here.put_nowait(messages)
        async with asyncio.TaskGroup() as group:
            group.create_task(pong(here, there))
            group.create_task(pong(there, here))

    asyncio.run(work())


def _episode() -> Callable[[int], None]:
    """A function that runs one null episode with so many messages. Raises AssertionError when it had another number."""
    from ..episode.arm import Arm
    from ..episode.episode import Episode
    from ..episode.workshop import Workshop
    from ..hookspecs import ApexSpec, hookimpl
    from ..interfaces import EpisodeJob
    from ..plugins import load_plugins
    from ..testing.null_episode import NullSuite, PingPong

    class Null(ApexSpec):
        @hookimpl
        def apex_teams(self, add: Any) -> None:
            add("bench_ping_pong", PingPong)

        @hookimpl
        def apex_suites(self, add: Any) -> None:
            add("bench_null", NullSuite)

    plugins = load_plugins(environ={"APEX_PLUGINS": ""}, plugins=[Null()])  # nobody else's plugin is measured
    shop = Workshop(plugins, "bench_null", "dev")

    def work(messages: int) -> None:
        arm = Arm(
            "bench",
            team="bench_ping_pong",
            controller="phase_heuristic",
            backends={"*": "scripted"},
            budget=1_000 * messages,
            dwell=messages,
            max_steps=messages + 10,
        )
        job = EpisodeJob(0, arm.to_json(), str(messages), 0)
        result = Episode(shop, arm, shop.task(job.task_id), job).run()
        assert (result.record["steps"], result.record["calls"]) == (messages, messages), result.record

    return work
