"""What is awaited within bounds ends soon after its task is cancelled, whatever it does, and is transparent otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework import timeloop
from apex_framework.errors import BackendError
from apex_framework.services.bounded import GRACE_S, bounded


def on(work: Callable[[], Awaitable[Any]]) -> Any:
    return timeloop.run(work())


def test_results_errors_and_futures_pass_through() -> None:
    async def work() -> None:
        async def answer() -> int:
            await asyncio.sleep(1)
            return 7

        async def fail() -> None:
            raise KeyError("bug")

        async def pieces() -> AsyncIterator[int]:
            await asyncio.sleep(1)
            yield 8

        stream = pieces()
        future = asyncio.get_running_loop().create_future()
        future.set_result(9)
        found = [await bounded(answer()), await bounded(anext(stream)), await bounded(future)]
        assert found == [7, 8, 9] and asyncio.get_running_loop().time() == 2.0
        with pytest.raises(StopAsyncIteration):
            await bounded(anext(stream))
        with pytest.raises(KeyError):
            await bounded(fail())
        nothing: Any = 7
        with pytest.raises(TypeError, match="cannot be awaited"):
            await bounded(nothing)

    on(work)


def test_a_time_limit_of_its_own_is_its_own() -> None:
    async def inner() -> str:
        try:
            async with asyncio.timeout(1):
                await asyncio.sleep(5)
        except TimeoutError:
            await asyncio.sleep(5)
        return "done"

    async def work() -> None:
        assert await bounded(inner()) == "done" and asyncio.get_running_loop().time() == 6.0
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0

    on(work)


def test_one_that_goes_on_and_on_after_its_own_limit_is_a_backend_error_not_a_cancellation() -> None:
    async def inner() -> None:
        async with asyncio.timeout(1):
            try:
                await asyncio.sleep(5)
            finally:
                await asyncio.sleep(50)

    async def work() -> None:
        with pytest.raises(BackendError, match="its own time limit"):
            await bounded(inner())
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0
        assert asyncio.get_running_loop().time() == pytest.approx(1 + GRACE_S)
        await asyncio.sleep(1)

    on(work)


ACTS = st.lists(
    st.sampled_from(["sleep", "swallow", "shield", "limit", "group", "raise", "tidy", "answer"]), min_size=1, max_size=6
)


async def stranger(acts: list[str]) -> str:
    """Does one odd thing after the other."""
    for act in acts:
        match act:
            case "sleep":
                await asyncio.sleep(0.3)
            case "swallow":
                try:
                    await asyncio.sleep(0.3)
                except asyncio.CancelledError:
                    await asyncio.sleep(0.02)
            case "shield":
                await asyncio.shield(asyncio.sleep(0.3))
            case "limit":
                try:
                    async with asyncio.timeout(0.2):
                        await asyncio.sleep(1)
                except TimeoutError:
                    pass
            case "group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(0.1))
                    group.create_task(asyncio.sleep(0.2))
            case "tidy":
                try:
                    await asyncio.sleep(0.1)
                finally:
                    await asyncio.sleep(0.05)
            case "raise":
                try:
                    await asyncio.sleep(0.1)
                except asyncio.CancelledError:
                    raise ValueError("cancelled") from None
            case _:
                return "early"
    return "done"


@settings(max_examples=300, deadline=None, derandomize=True)
@given(acts=ACTS, after=st.integers(0, 2_000), by_timeout=st.booleans())
def test_it_ends_in_time_as_cancelled_or_as_it_would_have(acts: list[str], after: int, by_timeout: bool) -> None:
    at = after / 1_000 + 0.000_5

    async def alone() -> tuple[str, float]:
        return await stranger(acts), asyncio.get_running_loop().time()

    expected, ends = timeloop.run(alone())

    async def inside() -> str:
        if by_timeout:
            async with asyncio.timeout(at):
                return await bounded(stranger(acts))
        return await bounded(stranger(acts))

    async def work() -> None:
        loop = asyncio.get_running_loop()
        call = loop.create_task(inside())
        if not by_timeout:
            loop.call_later(at, call.cancel)
        await asyncio.wait({call})
        if ends < at:
            assert call.result() == expected and loop.time() == ends
        else:
            assert loop.time() <= at + GRACE_S + 1e-9
            assert call.cancelled() if not by_timeout else isinstance(call.exception(), TimeoutError)

    timeloop.run(work())
