"""The virtual-time event loop: time jumps to the next timer, so a run takes no longer than its work."""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from .errors import DeadlockError
from .ports import derive_seed

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
CANCELLATIONS = 10
"""How often a task that is left over is cancelled before it counts as unstoppable."""
Observer = Callable[[asyncio.Handle, float], None]


class _Jump:
    """Stands where a selector would: waiting is a jump of the loop's time."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[NoReturn]:
        self._loop.jump(timeout)
        return []

    def close(self) -> None:
        pass


class NumberedTask(asyncio.Task[T]):
    """A task that hashes by its number on its loop.

    asyncio keeps tasks in sets (a TaskGroup its children, ``wait`` what it waits for, a loop all of
    them) and walks them to cancel: hashed by address, as tasks are, the order would differ from run
    to run.
    """

    number = 0

    def __hash__(self) -> int:
        return self.number


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """An asyncio loop without real time, input, output or threads: the same seed gives the same run.

    Time starts at 0.0 seconds and stands still while anything is ready. With ``shuffle`` each callback
    is drawn with ``seed`` from all that are ready, timers due at the same moment included: each seed
    is another legal interleaving. ``observe`` is called after every callback with its handle and the
    time; what it raises ends the run. ``tick_s`` is the clock's resolution, 0.0 for a perfect one. When nothing is ready and no timer is set, nothing can ever
    happen again: that raises DeadlockError.

    The order in which asyncio cancels the tasks of a group is that of their making. Plain futures in
    a set are still hashed by address; asyncio has none whose order shows.
    """

    # Of asyncio's base loop, the same in every Python that is supported:
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float
    _timer_cancelled_count: int
    _stopping: bool

    def __init__(
        self, seed: int = 0, shuffle: bool = False, observe: Observer | None = None, tick_s: float = 0.0
    ) -> None:
        super().__init__()
        self._tick_s = tick_s
        self._selector = _Jump(self)
        self._virtual_now = 0.0
        self._order = random.Random(derive_seed("timeloop", seed)) if shuffle else None
        self._observe = observe
        # The base loop fires timers that are due within its clock's resolution without letting time pass, by default
        # a nanosecond: two waiters that each set a timer for the rounding error of the last would spin for ever.
        self._clock_resolution = math.ulp(0.0)
        self._tasks = 0
        self.set_task_factory(self._task)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual_now

    def ignore(self) -> None:
        """Observe no more."""
        self._observe = None

    def jump(self, timeout: float | None) -> None:
        """Advance to the next timer; called by the loop when it would wait. Raises DeadlockError."""
        if timeout is None:
            raise DeadlockError(self._virtual_now)
        if timeout > 0:
            self._move(self._virtual_now + timeout)

    def _move(self, time: float) -> None:
        """Go there, or to the clock's next tick."""
        if self._tick_s:
            ticks = math.ceil(time / self._tick_s)
            time = ticks * self._tick_s if ticks * self._tick_s >= time else (ticks + 1) * self._tick_s
        self._virtual_now = time
        self._clock_resolution = math.ulp(time)

    def _task(
        self, loop: asyncio.AbstractEventLoop, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], **more: Any
    ) -> NumberedTask[T]:
        self._tasks += 1
        task = NumberedTask(coro, loop=loop, **more)
        task.number = self._tasks
        return task

    def _run_once(self) -> None:
        if self._order is None and self._observe is None:
            super()._run_once()  # type: ignore[misc]  # typeshed leaves it out
            return
        ready, order, observe = self._ready, self._order, self._observe
        self._wait()
        for _ in range(len(ready) if order is None else min(1, len(ready))):
            if order is not None and (chosen := int(order.random() * len(ready))):
                ready[0], ready[chosen] = ready[chosen], ready[0]
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
                if observe is not None:
                    observe(handle, self._virtual_now)

    def _wait(self) -> None:
        """Make ready what is due, after a jump when nothing is. Raises DeadlockError."""
        ready, scheduled = self._ready, self._scheduled
        if self._timer_cancelled_count > 100 and self._timer_cancelled_count * 2 > len(scheduled):
            scheduled[:] = [timer for timer in scheduled if not timer._cancelled]
            heapq.heapify(scheduled)
            self._timer_cancelled_count = 0
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)
            self._timer_cancelled_count -= 1
        if not ready and not self._stopping:
            if not scheduled:
                raise DeadlockError(self._virtual_now)
            self._move(max(self._virtual_now, scheduled[0].when()))
        while scheduled and scheduled[0].when() <= self._virtual_now:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]  # typeshed leaves it out
            if timer._cancelled:
                self._timer_cancelled_count -= 1
            else:
                ready.append(timer)

    def _process_events(self, event_list: list[NoReturn]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Raises RuntimeError: a thread has no place in virtual time; await ``Effects.run`` instead."""
        raise RuntimeError("no threads on a virtual-time loop: use ports.VirtualEffects")


def run(
    coro: Coroutine[Any, Any, T],
    *,
    seed: int = 0,
    shuffle: bool = False,
    observe: Observer | None = None,
    tick_s: float = 0.0,
) -> T:
    """Run a coroutine to its end on a loop of its own, then cancel what it left behind.

    Raises what the coroutine raises, DeadlockError when it waits for something that cannot come, and RuntimeError for
    a task that cannot be cancelled.
    """
    loop = VirtualTimeLoop(seed, shuffle, observe, tick_s)
    try:
        return loop.run_until_complete(coro)
    finally:
        try:
            loop.ignore()
            _clean_up(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def _clean_up(loop: VirtualTimeLoop) -> None:
    """Cancel what is left, again and again; raises RuntimeError for tasks that swallow every cancellation."""
    for _ in range(CANCELLATIONS):
        left = asyncio.all_tasks(loop)
        if not left:
            return
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left, timeout=60.0))
    raise RuntimeError(
        f"tasks swallowed {CANCELLATIONS} cancellations: {', '.join(map(repr, asyncio.all_tasks(loop)))}"
    )
