"""Ctrl-C, SIGTERM and SIGHUP: the first asks to finish what is in flight, the second, or 30 seconds, ends it."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

GRACE_S = 30
"""Seconds that episodes in flight get after the first signal."""


class Interruption:
    """While active, the first signal sets ``signal`` and later ones raise KeyboardInterrupt in the main thread.

    ``on_first`` is called at the first one, in a thread of its own.
    """

    def __init__(self, on_first: Callable[[], None] = lambda: None) -> None:
        self.signal = 0
        """Number of the first signal; 0 while there was none."""
        self._on_first = on_first
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup means what it says
                    self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            signal.alarm(0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            raise KeyboardInterrupt
        if number != signal.SIGALRM:
            self.signal = number
            signal.alarm(GRACE_S)
            # In a thread, without a lock on the way: the main thread may be in the middle of writing what this writes.
            _thread.start_new_thread(self._on_first, ())
