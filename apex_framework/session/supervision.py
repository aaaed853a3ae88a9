"""Supervision of plugin code: one message's handling is a unit that ends in bounded time, whatever the code does."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

NEVER = float("inf")


class Unit:
    """One piece of a plugin's work in the current task: cancellable, with a deadline.

    When the deadline passes, or ``stop`` is called, the work is cancelled; ``grace_s`` seconds later, if it goes on,
    a second time; after as long again ``let_go`` is called once, and the work is left where it stands and
    never resumed. While the work runs within its deadline ``renew`` is called every ``every_s`` seconds.

    The work runs in the task that awaits ``run``, not in one of its own: that would cost two turns of the loop for
    every message. Being driven by hand it can be left all the same.
    """

    __slots__ = ("_before", "_deadline", "_every_s", "_grace_s", "_let_go", "_loop", "_renew", "_requests", "_stage",
                 "_timer", "closed", "expired", "task")  # fmt: skip

    def __init__(
        self,
        *,
        grace_s: float,
        let_go: Callable[[Unit], None],
        deadline_s: float = NEVER,
        renew: Callable[[], None] = lambda: None,
        every_s: float = NEVER,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.expired = False
        """Whether the deadline passed before the work ended."""
        self.closed = False
        """Whether the task itself was closed, as an ending interpreter does."""
        self._loop = asyncio.get_running_loop()
        self._before = task.cancelling()
        self._deadline = self._loop.time() + deadline_s
        self._every_s = max(every_s, 0.001)
        self._grace_s, self._renew, self._let_go = grace_s, renew, let_go
        self._stage = self._requests = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def cancelled(self) -> bool:
        """Whether anybody but this unit has cancelled the task since the unit began."""
        return self.task.cancelling() > self._before + self._requests

    @property
    def abandoned(self) -> bool:
        """Whether the work was left."""
        return self._stage == 3

    @types.coroutine
    def run(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Await ``work`` and return what it returns; raises what it raises, and CancelledError when it was left."""
        thrown: BaseException | None = None
        self._schedule()
        try:
            while True:
                try:
                    waited = work.send(None) if thrown is None else work.throw(thrown)
                except StopIteration as end:
                    return end.value
                thrown = None
                try:
                    yield waited
                except GeneratorExit:
                    self.closed = True
                    work.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - it is the work's, to be thrown in there
                    thrown = error
                if self._stage == 3:
                    _keep(work)
                    raise asyncio.CancelledError
        finally:
            thrown = None  # or its traceback would keep this frame, and this frame it
            self._end()

    def stop(self) -> None:
        """Cancel the work, whatever its deadline; it ends within two times the grace. Idempotent."""
        if self._stage == 0:
            self._cancel()

    def _schedule(self) -> None:
        due = min(self._deadline, self._loop.time() + self._every_s)
        if due < NEVER:
            self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        if self._stage == 0 and self._loop.time() < self._deadline:
            self._renew()
            self._schedule()
            return
        self.expired |= self._stage == 0
        self._cancel()

    def _cancel(self) -> None:
        """The next of three: ask to end, ask again, leave. The last one wakes the task, if it can be woken."""
        self._stage += 1
        self._requests += 1
        self.task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._stage < 3:
            self._timer = self._loop.call_later(self._grace_s, self._cancel)
        else:
            self._let_go(self)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for _ in range(self._requests):
            self.task.uncancel()
        self._requests = 0


def _keep(work: Coroutine[Any, Any, Any]) -> None:
    """Keep work that was left, for as long as the process lives, and from being closed when it ends.

    Closing throws into it once more. Who swallows that as well, in a loop around an ``await``, spins for ever once the
    event loop is gone: a process that could never exit.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(work))


def check_times(ttl_s: float, handler_deadline_s: float) -> str | None:
    """A warning when messages live shorter than a handler may take; None when all is well. Times in seconds.

    What waits behind a busy agent keeps its time to live, but what is in a retry's backoff, at the gate, or
    for a relay on its way does not.
    """
    if ttl_s >= handler_deadline_s:
        return None
    return (
        f"messages live {ttl_s:g} s and a handler may take {handler_deadline_s:g} s: "
        "a message can expire before those ahead of it are handled"
    )
