"""A time limit on plain code, by the interval timer: for plugins that hang while they are loaded."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeLimitExceeded(BaseException):
    """Time is over. Not an Exception, so that the code under the limit does not catch it by accident."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeLimitExceeded in the body after so many seconds.

    Works in the main thread of a POSIX process and between two bytecodes: a body that hangs inside one C call, other
    threads and other platforms are not limited. A timer that was running before goes on afterwards.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TimeLimitExceeded

    started = time.monotonic()
    old_handler = signal.signal(signal.SIGALRM, ring)
    old_left, old_interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)
        if old_left:
            left = max(old_left - (time.monotonic() - started), 1e-6)
            signal.setitimer(signal.ITIMER_REAL, left, old_interval)
