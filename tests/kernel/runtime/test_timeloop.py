"""Virtual time: no waiting, no threads, the same seed the same trace, and a clear word when nothing can happen."""

from __future__ import annotations

import asyncio
import time

import pytest

from apex_framework.errors import DeadlockError
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
