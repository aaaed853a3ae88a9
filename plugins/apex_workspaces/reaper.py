"""Finding and ending every process that descends from this one (Linux; elsewhere, its process group)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from typing import NamedTuple

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def become_subreaper() -> bool:
    """Orphans of this process's descendants become its children; false where the system cannot."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> bool:
    """This process is killed when the thread that forked it ends."""
    return _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(option, value, 0, 0, 0) == 0)


class Process(NamedTuple):
    """What /proc tells of one: its name, the letter of its state, CPU ticks."""

    name: str
    state: str
    ticks: float


def descendants(pid: int) -> dict[int, Process]:
    """Every process below ``pid``; empty where there is no /proc."""
    parents: dict[int, list[int]] = {}
    facts: dict[int, Process] = {}
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                head, _, tail = file.read().rpartition(b")")
                fields = tail.split()
                parents.setdefault(int(fields[1]), []).append(int(name))
                called = head.partition(b"(")[2].decode(errors="replace")
                facts[int(name)] = Process(called, fields[0].decode(), float(fields[11]) + float(fields[12]))
    found: dict[int, Process] = {}
    waiting = list(parents.get(pid, ()))
    while waiting:
        child = waiting.pop()
        if child not in found:
            found[child] = facts[child]
            waiting.extend(parents.get(child, ()))
    return found


def end_all(group: int) -> None:
    """Kill a child with its process group and all descendants, and wait until none is left."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(group, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(group, 0)
    for attempt in range(2000):
        _reap()
        if not _has_children():
            return
        # Whoever left the group is found by descent; orphans come back to the subreaper.
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(min(0.0005 * (attempt + 1), 0.01))


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
