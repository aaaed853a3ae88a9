"""The parent of a confined tree: ends what outlives its program, and what takes more than is permitted all together."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping

from . import kernel

TICK_S = 0.1
"""Seconds between two looks at the tree."""
WATCHER = b"apex-sandbox"
"""See ``apex_framework.interfaces.WATCHER``, which cannot be imported here."""
_TOLD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


def supervise(limits: Mapping[str, int], *, own_tree: bool) -> None:
    """Returns in a child, to be confined; the caller stays, watches what comes of it, and ends as it ends.

    ``own_tree`` after ``namespaces.separate(processes=True)``: the tree is a kernel's affair and dies as one. Otherwise
    orphans come to the supervisor, which ends them. When the supervisor is killed the child is. ``limits`` are those of
    ``limits.apply``; here for all processes together.
    """
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    waited = {signal.SIGCHLD, *_TOLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if own_tree:
            _be_first()
        return
    code = 1
    try:
        kernel.be_called(WATCHER)
        code = _watch(child, limits, waited)
    finally:
        _end_all(child)
        _end_as(code)


def _be_first() -> None:
    """Become the first process of a tree, which reaps; returns in the second, for the first ignores signals."""
    inner = os.fork()
    if inner == 0:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        return
    while True:
        found, status = os.wait()
        if found == inner:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _watch(child: int, limits: Mapping[str, int], waited: set[signal.Signals]) -> int:
    due = time.monotonic() + TICK_S
    while True:
        told = signal.sigtimedwait(waited, max(0.0, due - time.monotonic()))
        if told is not None and told.si_signo in _TOLD:
            return -told.si_signo
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == child:
                    return os.waitstatus_to_exitcode(found[1])
        if time.monotonic() >= due:
            if excess := _excess(limits):
                sys.stderr.write(f"apex: stopped: {excess}\n")
                sys.stderr.flush()
                return -signal.SIGKILL
            due = time.monotonic() + TICK_S


def _excess(limits: Mapping[str, int]) -> str:
    tree = _tree()
    if len(tree) > limits["processes"]:
        return f"more than {limits['processes']} processes"
    if sum(ticks for ticks, _ in tree.values()) > limits["cpu_s"] * _TICKS:
        return f"more than {limits['cpu_s']} s of processor time, all processes together"
    if sum(pages for _, pages in tree.values()) * _PAGE > limits["memory"]:
        return f"more than {limits['memory']} bytes of memory, all processes together"
    return ""


def _tree() -> dict[int, tuple[int, int]]:
    """Clock ticks and pages of its own of every process and thread group below this one."""
    parents: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(name))
                ticks[int(name)] = sum(map(int, fields[11:15]))
    found: dict[int, tuple[int, int]] = {}
    waiting = list(parents.get(os.getpid(), ()))
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found[pid] = ticks[pid], _pages(pid)
            waiting += parents.get(pid, ())
    return found


def _pages(pid: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/statm", "rb") as file:
        _, resident, shared, *_ = map(int, file.read().split())
        return resident - shared
    return 0


def _end_all(child: int) -> None:
    """Kill every descendant, and wait until none is left."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    for attempt in range(1000):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in _tree():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(min(0.0005 * (attempt + 1), 0.01))


def _end_as(code: int) -> None:
    if code < 0:
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.Signals(-code)])
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)
