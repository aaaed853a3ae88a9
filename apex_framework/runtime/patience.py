"""A time limit on work of plugins that holds whatever the work does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from ..ports import Clock

Work = Callable[[], Awaitable[object]]
"""A plugin's asynchronous work, not yet begun."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a piece of work ended: ``error`` is what it raised, TimeoutError when it did not keep to its limit."""

    error: BaseException | None
    elapsed_s: float

    @property
    def words(self) -> str:
        """What went wrong, in a few words; empty when nothing did."""
        return "" if self.error is None else f"{type(self.error).__name__}: {self.error}".removesuffix(": ")


class Patience:
    """Does pieces of work together and waits no longer than their limit, whatever they do.

    ``asyncio.timeout`` waits until work has taken its cancellation, for ever if it swallows it. Here such
    work is left behind: it is cancelled a second time after another limit, and kept until it ends.

    Work that holds the event loop cannot be interrupted. Once it has let go, it has failed; the others, which
    had no turn meanwhile, have their limit again from there, once.
    """

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic
        self._left: set[_Task] = set()

    @property
    def left(self) -> int:
        """Pieces of work that were given up and have not ended yet."""
        return len(self._left)

    def begin(self, works: Mapping[str, Work], limit_s: float) -> Batch:
        """Begin them all; to be used as a context manager, which gives up what is under way at its end."""
        return Batch(works, limit_s, self._now, self._give_up)

    def _give_up(self, task: _Task, limit_s: float) -> None:
        task.cancel()
        again = asyncio.get_running_loop().call_later(limit_s, task.cancel)
        self._left.add(task)
        task.add_done_callback(self._left.discard)
        task.add_done_callback(lambda _: again.cancel())


class Batch:
    """Pieces of work under way."""

    def __init__(
        self,
        works: Mapping[str, Work],
        limit_s: float,
        now: Callable[[], float],
        give_up: Callable[[_Task, float], None],
    ) -> None:
        self._limit_s, self._now, self._give_up = limit_s, now, give_up
        self._began = now()
        self._turns = {name: _Turns(work, now) for name, work in works.items()}
        # Not in a task group: that would wait for work that swallows its cancellation.
        self._tasks = {name: asyncio.create_task(_outcome(turns)) for name, turns in self._turns.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks.values():
            if not task.done():
                self._give_up(task, self._limit_s)

    async def ended(self, *, first_failure: bool = False) -> dict[str, Ended]:
        """How each piece ended, once all have or the limit has passed; with ``first_failure``, those that had by then.

        Of what they raise only KeyboardInterrupt passes.
        """
        over = asyncio.get_running_loop().create_future()
        running = len(self._tasks)

        def done(task: _Task) -> None:
            nonlocal running
            running -= 1
            failed = task.cancelled() or task.exception() is not None or task.result() is not None
            if not over.done() and (running == 0 or (failed and first_failure)):
                over.set_result(None)

        for task in self._tasks.values():
            task.add_done_callback(done)
        await asyncio.wait({over}, timeout=self._limit_s - (self._now() - self._began))
        if not over.done() and self._now() - self._began > 2 * self._limit_s:
            await asyncio.wait({over}, timeout=self._limit_s)
        return {name: self._end(name) for name in self._tasks if not over.done() or self._tasks[name].done()}

    def _end(self, name: str) -> Ended:
        task, turns, limit_s = self._tasks[name], self._turns[name], self._limit_s
        error = task.result() if task.done() else TimeoutError(f"no answer within {limit_s * 1000:g} ms")
        if turns.longest_s > limit_s:
            error = TimeoutError(f"held the event loop for {turns.longest_s * 1000:.0f} ms")
        return Ended(error, turns.stopped - self._began)


class _Turns:
    """Awaits work and measures the longest time for which it had the event loop to itself."""

    def __init__(self, work: Work, now: Callable[[], float]) -> None:
        self._work, self._now = work, now
        self.longest_s = 0.0
        self.stopped = now()
        """When it last had a turn."""

    def __await__(self) -> Generator[Any, Any, object]:
        began = self._now()
        try:
            inner = self._work().__await__()
            step: Callable[[Any], Any] = inner.send
            value: Any = None
            while True:
                began = self._now()
                waits_for = step(value)
                self._turn(began)
                try:
                    value = yield waits_for
                    step = inner.send
                except BaseException as error:  # noqa: BLE001 - handed on to the work
                    value, step = error, inner.throw
        except StopIteration as end:
            return end.value
        finally:
            self._turn(began)

    def _turn(self, began: float) -> None:
        self.stopped = self._now()
        self.longest_s = max(self.longest_s, self.stopped - began)


async def _outcome(turns: _Turns) -> BaseException | None:
    try:
        await turns
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a plugin's edge: SystemExit from here would end the event loop
        return error
    return None


_Task = asyncio.Task[BaseException | None]
