"""A view of the files of its own: everything read-only but some folders, and a private place for shared memory.

Landlock does not know modes, owners, times and attributes of files; a read-only mount holds these too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable

from . import kernel

_MOUNT = {"x86_64": 165, "aarch64": 40}
_SET_ATTRIBUTES = 442
_NOSUID, _NODEV, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000
_HERE, _AT_RECURSIVE, _READ_ONLY = -100, 0x8000, 1
_SHARED_MEMORY = "/dev/shm"


class _Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user")]


def read_only_but(writable: Iterable[str], shared_memory: int) -> None:
    """Only for a process in namespaces of users and mounts of its own. ``shared_memory`` in bytes. Raises OSError."""
    folders = [os.path.realpath(path) for path in writable if os.path.exists(path)]
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    for path in folders:
        _mount(path, path, None, _BIND | _RECURSIVE)
    _change("/", _Attributes(set=_READ_ONLY), _AT_RECURSIVE)
    for path in folders:
        _change(path, _Attributes(clear=_READ_ONLY), 0)
    with contextlib.suppress(OSError):  # where there is none, programs that need it say so themselves
        _mount("shm", _SHARED_MEMORY, "tmpfs", _NOSUID | _NODEV, f"size={shared_memory},mode=1777")
    with contextlib.suppress(FileNotFoundError):
        os.chdir(os.getcwd())  # a working directory stays on the mount where it was entered


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    names = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    given = None if options is None else options.encode("ascii")
    kernel.call(_MOUNT[kernel.machine()], *names, flags, given)


def _change(path: str, attributes: _Attributes, flags: int) -> None:
    size = ctypes.sizeof(attributes)
    kernel.call(_SET_ATTRIBUTES, _HERE, os.fsencode(path), flags, ctypes.byref(attributes), size)
