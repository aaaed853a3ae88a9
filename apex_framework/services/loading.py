"""Slow loading that belongs to no caller: whoever waits for it may go away, and so may the caller's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from ..ports import Effects

T = TypeVar("T")


class Loading(Protocol, Generic[T]):
    """Something that is being loaded. Once it is ``over`` there is a ``value``, or an ``error``."""

    value: T | None
    error: Exception | None

    @property
    def over(self) -> bool:
        """Whether it has ended, one way or the other."""
        ...

    async def wait(self, most_s: float | None = None) -> None:
        """Until it is over, at most so many seconds."""
        ...

    async def leave(self) -> None:
        """Nobody is interested any more."""
        ...


class InThread(Generic[T]):
    """Blocking ``work`` in a thread of its own, which holds up neither a loop's end nor the process's.

    It may be waited for on one event loop after another: what was begun in one episode serves the next.
    """

    def __init__(self, work: Callable[[], T], name: str = "loading") -> None:
        self.value: T | None = None
        self.error: Exception | None = None
        self._over = False
        self._work = work
        self._guard = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def over(self) -> bool:
        """Whether the thread is done."""
        return self._over

    async def wait(self, most_s: float | None = None) -> None:
        """Until it is over, at most so many seconds."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._guard:
            if self._over:
                return
            self._waiting.append((loop, future))
        await asyncio.wait({future}, timeout=most_s)

    async def leave(self) -> None:
        """A thread cannot be ended; what it loads is dropped."""

    def _run(self) -> None:
        try:
            self.value = self._work()
        except Exception as error:  # noqa: BLE001 - a plugin's edge: told to whoever asks for the value
            self.error = error
        with self._guard:
            self._over = True
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            with contextlib.suppress(RuntimeError):  # that loop is closed, and whoever waited there is gone
                loop.call_soon_threadsafe(_wake, future)


class OnLoop(Generic[T]):
    """The same through ``effects``, as a task of the running loop: for virtual time, and ended with its loop."""

    def __init__(self, work: Callable[[], T], effects: Effects) -> None:
        self.value: T | None = None
        self.error: Exception | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(work, effects))  # ended by ``leave`` or its loop

    @property
    def over(self) -> bool:
        """Whether the task is done."""
        return self._task.done()

    async def wait(self, most_s: float | None = None) -> None:
        """Until it is over, at most so many seconds."""
        if not self._task.done():
            await asyncio.wait({self._task}, timeout=most_s)

    async def leave(self) -> None:
        """Cancel it."""
        self._task.cancel()
        if not self._task.done():
            await asyncio.wait({self._task})

    async def _run(self, work: Callable[[], T], effects: Effects) -> None:
        try:
            self.value = await effects.run(work, cost=lambda _: 0.0)
        except Exception as error:  # noqa: BLE001 - a plugin's edge: told to whoever asks for the value
            self.error = error


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
