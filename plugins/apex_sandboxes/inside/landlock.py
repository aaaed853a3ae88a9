"""Landlock: which files a process, and all that it starts, may use (docs.kernel.org/userspace-api/landlock.html)."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterable

from . import kernel

_CREATE, _ADD, _RESTRICT = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << n for n in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ALL_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_TCP = 1 << 0 | 1 << 1
_SCOPES = 1 << 0 | 1 << 1
"""Abstract sockets and signals of processes outside."""

HOLDS_SIGNALS = 6
"""The version since which it holds signals and abstract sockets."""
READ = EXECUTE | READ_FILE | READ_DIR
CHANGE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
CHANGE |= REFER | TRUNCATE
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """The kernel's version of Landlock; 0 for none."""
    try:
        kernel.machine()
        return kernel.call(_CREATE, None, 0, 1)
    except OSError:
        return 0


def restrict(readable: Iterable[str], writable: Iterable[str], devices: Iterable[str], *, network: bool) -> None:
    """Only these paths and what lies below them: to read and run, to change, to read and write. Absent paths are left out.

    Also where the kernel can: no TCP but with ``network``, no abstract socket and no signal to what is outside. Needs
    ``no_new_privileges``. Raises OSError, ``Unsupported`` where there is no Landlock.
    """
    abi = version()
    if abi < 1:
        raise kernel.Unsupported(errno.ENOSYS, "this kernel has no Landlock")
    handled = _ALL_BY_ABI[min(abi, 5)]
    rules = _Ruleset(handled, _TCP if abi >= 4 and not network else 0, _SCOPES if abi >= HOLDS_SIGNALS else 0)
    size = 8 if abi < 4 else 16 if abi < HOLDS_SIGNALS else 24
    ruleset = kernel.call(_CREATE, ctypes.byref(rules), size, 0)
    try:
        for paths, access in ((readable, READ), (writable, CHANGE), (devices, READ_FILE | WRITE_FILE | TRUNCATE)):
            for path in paths:
                _allow(ruleset, path, access & handled)
        kernel.call(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            access &= _OF_FILES
        rule = _Beneath(access, fd)
        kernel.call(_ADD, ruleset, 1, ctypes.byref(rule), 0)
    finally:
        os.close(fd)
