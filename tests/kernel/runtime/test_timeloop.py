"""Virtual time: no waiting, no threads, the same seed the same trace, and a clear word when nothing can happen."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import pytest

from apex_framework.errors import DeadlockError
from apex_framework.testing.trace import Trace
from apex_framework.testing.virtual_time import interleavings
from apex_framework.timeloop import VirtualTimeLoop, run


def test_an_hour_takes_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    started = time.perf_counter()
    assert run(main()) == 3600
    assert time.perf_counter() - started < 1


def test_timeouts_work() -> None:
    async def main() -> None:
        async with asyncio.timeout(5):
            await asyncio.sleep(10)

    with pytest.raises(TimeoutError):
        run(main())


async def race(_seed: int = 0) -> str:
    trace: list[str] = []

    async def runner(name: str) -> None:
        for _ in range(3):
            trace.append(name)
            await asyncio.sleep(0 if name < "c" else 0.1)

    async with asyncio.TaskGroup() as group:
        for name in "abcd":
            group.create_task(runner(name))
    return "".join(trace)


def test_in_order_without_shuffle() -> None:
    assert run(race()) == run(race(), seed=5) == "abcdababcdcd"


def test_the_same_seed_gives_the_same_trace_and_others_differ() -> None:
    traces = [run(race(), seed=seed, shuffle=True) for seed in range(20)]
    assert traces == interleavings(race, range(20))
    assert len(set(traces)) > 10


def test_timers_due_together_are_shuffled_too() -> None:
    async def main() -> str:
        trace: list[str] = []
        for name in "abcde":
            asyncio.get_running_loop().call_later(1.0, trace.append, name)
        await asyncio.sleep(2)
        return "".join(trace)

    assert run(main()) == run(main())
    assert len({run(main(), seed=seed, shuffle=True) for seed in range(20)}) > 5


def test_deadlock_is_an_error_and_clean_up_still_happens() -> None:
    cleaned = []

    async def main() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    with pytest.raises(DeadlockError, match="every task waits"):
        run(main())
    assert cleaned == [True]


def test_no_threads() -> None:
    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        run(main())


def test_a_failing_scenario_names_its_seed() -> None:
    async def fails(seed: int) -> None:
        assert seed != 3

    with pytest.raises(AssertionError) as caught:
        interleavings(fails, range(5))
    assert caught.value.__notes__ == ["repeat it with seed 3"]


def test_a_loop_can_be_used_by_asyncio_runner() -> None:
    async def main() -> float:
        await asyncio.sleep(7)
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(main()) == 7


async def cancelled_together() -> str:
    order: list[str] = []

    async def waits(name: str) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            order.append(name)

    async def fails() -> None:
        await asyncio.sleep(1)
        raise ValueError

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for name in "abcdefghijkl":
                group.create_task(waits(name))
            group.create_task(fails())
    return "".join(order)


def test_a_group_cancels_in_the_order_of_making() -> None:
    """asyncio keeps a group's tasks in a set, whose order would be that of their addresses."""
    ballast = [object() for _ in range(1000)]
    orders = {run(cancelled_together()) for _ in range(10)}
    assert orders == {"abcdefghijkl"}, ballast[:0]


def traced(seed: int, shuffle: bool = True, tick_s: float = 0.0) -> Trace:
    trace = Trace()
    run(race(), seed=seed, shuffle=shuffle, observe=trace.callback, tick_s=tick_s)
    return trace


def test_the_trace_hash_tells_runs_apart_and_repeats() -> None:
    assert traced(3).hash == traced(3).hash
    assert len({traced(seed).hash for seed in range(20)}) > 10


def test_the_trace_hash_is_the_same_in_any_process_and_under_any_hash_seed() -> None:
    code = "import test_timeloop as t; print(t.traced(7).hash, t.run(t.cancelled_together(), seed=7, shuffle=True))"
    folder = os.path.dirname(__file__)
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in (0, 1, 2)
    }
    assert answers == {f"{traced(7).hash} {run(cancelled_together(), seed=7, shuffle=True)}\n"}


def test_observing_changes_nothing() -> None:
    seen: list[float] = []
    for shuffle in (False, True):
        plain = run(race(), seed=9, shuffle=shuffle)
        assert run(race(), seed=9, shuffle=shuffle, observe=lambda _, now: seen.append(now)) == plain
    assert seen and seen == sorted(seen[: len(seen) // 2]) + sorted(seen[len(seen) // 2 :])


def test_what_an_observer_raises_ends_the_run() -> None:
    class Stop(BaseException):
        pass

    left = 5

    def count(_handle: asyncio.Handle, _now: float) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Stop

    with pytest.raises(Stop):
        run(race(), observe=count)


def test_any_of_the_ready_callbacks_may_run_first() -> None:
    """Also one that became ready last: batches do not bind."""

    async def main() -> str:
        order: list[str] = []
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: (order.append("a"), loop.call_soon(order.append, "late")))
        loop.call_soon(order.append, "b")
        await asyncio.sleep(1)
        return "".join(order)

    assert {run(main(), seed=seed, shuffle=True) for seed in range(40)} == {"alateb", "ablate", "balate"}


def test_f27_a_coarse_clock_ticks() -> None:
    async def main() -> list[float]:
        times = []
        for _ in range(6):
            await asyncio.sleep(0.004)
            times.append(asyncio.get_running_loop().time())
        return times

    times = run(main(), tick_s=0.015)
    assert all(abs(t / 0.015 - round(t / 0.015)) < 1e-9 for t in times)
    assert times == sorted(times)


def test_thousands_of_cancelled_timers_are_forgotten() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        for _ in range(5000):
            loop.call_later(3600, print).cancel()
            await asyncio.sleep(0.001)
        return len(loop._scheduled)  # type: ignore[attr-defined]  # typeshed leaves it out

    assert run(main(), shuffle=True) < 300
