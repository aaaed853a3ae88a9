"""Namespaces: a network of its own with nothing but loopback, mounts and a process tree of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct

from . import kernel

NEWNS, NEWUTS, NEWIPC, NEWUSER = 0x00020000, 0x04000000, 0x08000000, 0x10000000
NEWPID, NEWNET = 0x20000000, 0x40000000
_UNSHARE = {"x86_64": 272, "aarch64": 97}


def separate(*, network: bool, processes: bool) -> None:
    """Leave the namespaces of users, mounts, IPC and names; of the network unless ``network``; of processes for children.

    The user and group stay what they are called. Only for a process with one thread. Raises OSError.
    """
    user, group = os.getuid(), os.getgid()
    flags = NEWUSER | NEWNS | NEWIPC | NEWUTS | (0 if network else NEWNET) | (NEWPID if processes else 0)
    kernel.call(_UNSHARE[kernel.machine()], flags)
    with contextlib.suppress(FileNotFoundError):
        _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    if not network:
        with contextlib.suppress(OSError):  # without it, programs inside cannot even speak to themselves
            _loopback_up()


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode("ascii"))
    finally:
        os.close(fd)


def _loopback_up() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(probe, 0x8913, request))[1]
        fcntl.ioctl(probe, 0x8914, struct.pack("16sh14x", b"lo", flags | 1))


def in_own_tree() -> None:
    """Returns in a child that is the first process of a new tree; the caller waits for it and ends as it ended.

    When either is killed all of the tree is. Call it after ``separate(processes=True)``.
    """
    child = os.fork()
    if child == 0:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        inner = os.fork()  # the first process of a tree ignores signals that it does not handle: the program is another
        if inner == 0:
            return
        _end_like(inner, first=True)
    _pass_on_signals(child)
    _end_like(child, first=False)


def _pass_on_signals(child: int) -> None:
    def kill(_number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, kill)


def _end_like(child: int, *, first: bool) -> None:
    while True:
        found, status = os.wait()  # the first process of a tree is the parent of all its orphans
        if found == child:
            break
    code = os.waitstatus_to_exitcode(status)
    if code < 0 and not first:
        for number in (-code,):
            with contextlib.suppress(OSError):
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
    os._exit(code if code >= 0 else 128 - code)
