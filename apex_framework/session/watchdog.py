"""The watchdog: notices that something holds the event loop, and where, while it does."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..events import LoopStalled
from ..ports import SystemClock
from ..timeloop import VirtualTimeLoop

log = logging.getLogger(__name__)

STACK_FRAMES = 25


class Watchdog:
    """Reports every time the running loop stood still for ``limit_s`` seconds or more. A context manager.

    The loop beats; a thread looks at it and, when it misses beats, at the stack of the loop's own thread. The
    report comes from the loop, once it goes on, with how long that took. Under virtual time there is nothing
    to watch, and nothing is started. A machine that gives no thread leaves the session unwatched, with a warning.
    """

    def __init__(
        self,
        episode_id: str,
        report: Callable[[LoopStalled], None],
        who: Callable[[asyncio.Task[Any] | None], str],
        *,
        limit_s: float,
    ) -> None:
        """``who`` names the agent that a task works for; empty when it is none's."""
        self._episode_id, self._report, self._who = episode_id, report, who
        self._limit_s = limit_s
        self._now = SystemClock().monotonic
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._ended = threading.Event()
        self._beat_at = self._now()
        self._seen: tuple[float, str, asyncio.Task[Any] | None] | None = None
        """(beat that was the last one, stack, task) of a stall that goes on."""
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Watchdog:
        if isinstance(self._loop, VirtualTimeLoop) or self._limit_s <= 0:
            return self
        try:
            threading.Thread(target=self._watch, name="apex-watchdog", daemon=True).start()
        except RuntimeError as error:
            log.warning("nobody watches the event loop: %s", error)
            return self
        self._beat()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
            self._look()

    def _beat(self) -> None:
        self._look()
        self._beat_at = self._now()
        self._timer = self._loop.call_later(self._limit_s / 4, self._beat)

    def _look(self) -> None:
        """In the loop: was there a stall since the last beat?"""
        stalled = self._now() - self._beat_at
        if stalled < self._limit_s:
            return
        beat, stack, task = self._seen or (0.0, "", None)
        if beat != self._beat_at:  # the thread had no chance to look
            stack, task = "", None
        self._report(LoopStalled(self._episode_id, self._who(task), stalled * 1000, stack))

    def _watch(self) -> None:
        """In the thread."""
        while not self._ended.wait(self._limit_s / 4):
            beat = self._beat_at
            if self._now() - beat < self._limit_s or (self._seen is not None and self._seen[0] == beat):
                continue
            frame = sys._current_frames().get(self._thread_id)
            self._seen = (beat, _where(frame), asyncio.current_task(self._loop))


def _where(frame: FrameType | None) -> str:
    if frame is None:
        return ""
    return "".join(traceback.format_stack(frame, STACK_FRAMES))
