"""Runs a stranger's coroutine in the caller's task, and goes on without it when it will not end.

Cancelling is a request: a coroutine may swallow it, or take its time over it. A task of its own would not help, because
what refuses to end there keeps a loop from closing. Here it is driven step by step, so that it can be left behind.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Final, TypeVar

from ..errors import BackendError, Failure

_log = logging.getLogger(__name__)

T = TypeVar("T")

GRACE_S: Final = 0.1
"""What is cancelled may tidy up for so long."""
_TRIES: Final = 100


async def bounded(work: Awaitable[T]) -> T:
    """The result of ``work``, which ends at most ``GRACE_S`` after this task is cancelled, whatever it does.

    What it answers or raises after that cancellation is dropped. It may cancel and uncancel the task itself, as its own
    ``asyncio.timeout`` does; but what then goes on for ``GRACE_S`` is a BackendError. Raises TypeError for what cannot
    be awaited. Code that does not let the loop turn cannot be stopped, here or anywhere in its thread.
    """
    if inspect.iscoroutine(work) or hasattr(work, "throw"):  # the next piece of an async generator can be driven, too
        return await _driven(work)  # type: ignore[arg-type]  # it has a coroutine's send, throw and close
    if not inspect.isawaitable(work):
        raise TypeError(f"{type(work).__name__} cannot be awaited")
    return await _driven(_awaited(work))


async def _awaited(work: Awaitable[T]) -> T:
    return await work


@types.coroutine
def _driven(work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    grace: asyncio.TimerHandle | None = None
    over = False

    def leave() -> None:
        nonlocal over
        over = True
        task.cancel()

    thrown: BaseException | None = None
    value: Any = None
    try:
        while True:
            try:
                waiting = work.send(value) if thrown is None else work.throw(thrown)
            except StopIteration as done:
                if task.cancelling() > before:
                    raise asyncio.CancelledError from None
                return done.value  # type: ignore[no-any-return]  # a coroutine's value is what StopIteration holds
            except Exception as error:  # whatever it made of its cancellation, it was cancelled
                if task.cancelling() > before:
                    raise asyncio.CancelledError from error
                raise
            if task.cancelling() <= before:
                if grace is not None:
                    grace.cancel()
                    grace = None
            elif grace is None:
                grace = asyncio.get_running_loop().call_later(GRACE_S, leave)
            thrown = value = None
            try:
                value = yield waiting
            except asyncio.CancelledError as error:
                if over:
                    task.uncancel()
                    _leave(work)
                    if task.cancelling() > before:
                        raise
                    raise BackendError(
                        f"it went on for {GRACE_S:g} s after its own time limit", kind=Failure.TOTAL_TIMEOUT
                    ) from None
                thrown = error
            except GeneratorExit:
                _leave(work)
                raise
            except Exception as error:  # noqa: BLE001 - what the awaited future failed with is the work's to handle
                thrown = error
    finally:
        if grace is not None:
            grace.cancel()


class _Left(BaseException):
    """Thrown into what must end. Not GeneratorExit: Python closes the innermost coroutine for that, and only once."""


def _leave(work: Coroutine[Any, Any, Any]) -> None:
    """Make it end, giving it no more time: whatever its tidying up awaits is cancelled, too."""
    for _ in range(_TRIES):
        for reason in (asyncio.CancelledError(), _Left()):
            try:
                work.throw(reason)
            except (Exception, asyncio.CancelledError, _Left):  # noqa: BLE001 - its end, however it is put
                return
    _log.error("%r cannot be ended; it is left where it is", work)
