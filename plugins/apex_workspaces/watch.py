"""Why a test process has to be stopped, and how it ended by itself."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from .reaper import descendants

_WATCHER = "apex-sandbox"
"""What a sandbox's own process is called (``apex_framework.interfaces.WATCHER``): it looks at the tree now and then, which is no work."""


class Watch:
    """Looks at the process tree now and then: too many processes, too much CPU, or asleep for good."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._processes: int = request["limits"]["processes"]
        self._idle_s: float = request["idle_s"]
        self._cpu_s: int = request["cpu_s"]
        self._next = time.monotonic() + 0.05
        self._ticks = self._base = -1.0
        self._since = 0.0
        self._results = -1

    def look(self, now: float, results: int) -> str:
        """Why to stop, or nothing."""
        if now < self._next:
            return ""
        self._next = now + 0.1
        below = descendants(os.getpid())
        working = [process for process in below.values() if process.name != _WATCHER]
        ticks = sum(process.ticks for process in working)
        if results != self._results:
            self._results, self._base = results, ticks
        # Running, waiting for a CPU or for a disk is not sleep, so load on the machine changes nothing here.
        if ticks != self._ticks or any(process.state in "RD" for process in working):
            self._ticks, self._since = ticks, now
        if len(below) > self._processes:
            return f"more than {self._processes} processes"
        if below and now - self._since > self._idle_s:
            return f"stopped: nothing happened for {self._idle_s:g} s"
        # The soft limit of the test process comes first; this is for those who ignore its signal.
        if ticks - self._base > (self._cpu_s + 2) * os.sysconf("SC_CLK_TCK"):
            return f"stopped: more than {self._cpu_s} s of CPU time"
        return ""


def how_it_ended(pid: int, cpu_s: int) -> str:
    """In words, without reaping it."""
    # The other end of the results is closed: the process is ending, or keeps running without a voice.
    for _ in range(200):
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is not None:
            break
        time.sleep(0.001)
    else:
        return "the test process closed its results"
    if found.si_code == os.CLD_EXITED:
        return f"the test process exited with status {found.si_status}"
    if found.si_status == signal.SIGXCPU:
        return f"stopped: more than {cpu_s} s of CPU time"
    return f"the test process was ended by {signal.Signals(found.si_status).name}"
