"""The crew: the tasks of one session, which all end in bounded time, whatever the plugins in them do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .supervision import Unit


class Crew:
    """Tasks, whom each works for, and the plugin code that each has at work."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        """``failed`` hears what a task raised that was not cancelled."""
        self._failed = failed
        self._members: dict[asyncio.Task[Any], str] = {}
        self._units: dict[asyncio.Task[Any], Unit] = {}
        self._empty: asyncio.Future[None] | None = None
        self.closing = False
        """Whether the crew is being dismissed."""

    def start(self, work: Coroutine[Any, Any, None], agent_id: str = "") -> None:
        """Another task."""
        # Not a task group: it waits for ever for a task that cannot be woken.
        task = asyncio.get_running_loop().create_task(work)
        self._members[task] = agent_id
        task.add_done_callback(self.left)

    def left(self, task: asyncio.Task[Any]) -> None:
        """A task has ended, or is not waited for any more."""
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
        self._members.pop(task, None)
        if not self._members and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def begin(self, unit: Unit) -> None:
        """A task gives itself to a plugin's code."""
        self._units[unit.task] = unit

    def end(self, unit: Unit) -> None:
        """It is back."""
        self._units.pop(unit.task, None)

    def works_for(self, task: asyncio.Task[Any] | None) -> str:
        """The agent whose work a task does; empty when it is none's."""
        return self._members.get(task, "") if task is not None else ""

    async def dismiss(self) -> None:
        """End all of them, in bounded time. Cancelled meanwhile, it goes on, and raises the cancellation afterwards."""
        self.closing = True
        for task in list(self._members):
            if (unit := self._units.get(task)) is not None:
                unit.stop()
            else:
                task.cancel()
        cancelled: asyncio.CancelledError | None = None
        while self._members:
            self._empty = asyncio.get_running_loop().create_future()
            try:
                await self._empty
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
