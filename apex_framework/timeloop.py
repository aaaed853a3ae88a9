"""The virtual-time event loop: time jumps to the next timer, so a run takes no longer than its work."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from .errors import DeadlockError
from .ports import derive_seed

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Jump:
    """Stands where a selector would: waiting is a jump of the loop's time."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[NoReturn]:
        self._loop.jump(timeout)
        return []

    def close(self) -> None:
        pass


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """An asyncio loop without real time, input, output or threads: the same seed gives the same run.

    Time starts at 0.0 seconds and stands still while anything is ready. With ``shuffle`` the callbacks
    that are ready together, timers due at the same moment included, run in an order drawn from
    ``seed``: each seed is another legal interleaving. When nothing is ready and no timer is set,
    nothing can ever happen again: that raises DeadlockError.

    What asyncio itself keeps in sets (the order in which a TaskGroup cancels its tasks) is outside
    its reach: cancel in an order of your own where that order shows.
    """

    # Of asyncio's base loop, the same in every Python that is supported:
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, seed: int = 0, shuffle: bool = False) -> None:
        super().__init__()
        self._selector = _Jump(self)
        self._virtual_now = 0.0
        self._order = random.Random(derive_seed("timeloop", seed)) if shuffle else None

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual_now

    def jump(self, timeout: float | None) -> None:
        """Advance to the next timer; called by the loop when it would wait. Raises DeadlockError."""
        if timeout is None:
            raise DeadlockError(self._virtual_now)
        if timeout > 0:
            self._virtual_now += timeout
        if self._order is not None:
            self._permute(self._order)

    def _permute(self, order: random.Random) -> None:
        # The loop would append due timers behind the ready callbacks after this call, in their order.
        ready: list[asyncio.Handle] = list(self._ready)
        due = [h for h in self._scheduled if h.when() <= self._virtual_now and not h.cancelled()]
        if len(ready) + len(due) < 2:
            return
        for handle in sorted(due, key=lambda h: h.when()):
            self._scheduled.remove(handle)
            handle._scheduled = False  # type: ignore[attr-defined]  # typeshed leaves it out
            ready.append(handle)
        if due:
            heapq.heapify(self._scheduled)
        order.shuffle(ready)
        self._ready.clear()
        self._ready.extend(ready)

    def _process_events(self, event_list: list[NoReturn]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Raises RuntimeError: a thread has no place in virtual time; await ``Effects.run`` instead."""
        raise RuntimeError("no threads on a virtual-time loop: use ports.VirtualEffects")


def run(coro: Coroutine[Any, Any, T], *, seed: int = 0, shuffle: bool = False) -> T:
    """Run a coroutine to its end on a loop of its own, then cancel what it left behind.

    Raises what the coroutine raises, and DeadlockError when it waits for something that cannot come.
    """
    loop = VirtualTimeLoop(seed, shuffle)
    try:
        return loop.run_until_complete(coro)
    finally:
        try:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
