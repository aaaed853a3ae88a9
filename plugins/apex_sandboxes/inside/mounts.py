"""A view of the files of its own: everything read-only but some folders, and a private place for shared memory.

Landlock does not know modes, owners, times and attributes of files; a read-only mount holds these too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Iterable

from . import kernel

_MOUNT = {"x86_64": 165, "aarch64": 40}
_SET_ATTRIBUTES = 442
_NOSUID, _NODEV, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000
_HERE, _AT_RECURSIVE, _READ_ONLY = -100, 0x8000, 1
_SHARED_MEMORY = "/dev/shm"


class _Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user")]


def read_only_but(writable: Iterable[str], readable: Iterable[str], shared_memory: int) -> None:
    """Only for a process in namespaces of users and mounts of its own. ``shared_memory`` in bytes. Raises OSError.

    ``readable`` matters below the place for shared memory, whose other files are hidden.
    """
    folders = [os.path.realpath(path) for path in writable if os.path.exists(path)]
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    for path in folders:
        _mount(path, path, None, _BIND | _RECURSIVE)
    _change("/", _Attributes(set=_READ_ONLY), _AT_RECURSIVE)
    for path in folders:
        _change(path, _Attributes(clear=_READ_ONLY), 0)
    _cover_shared_memory([*folders, *readable], shared_memory)
    with contextlib.suppress(FileNotFoundError):
        os.chdir(os.getcwd())  # a working directory stays on the mount where it was entered


def _cover_shared_memory(shown: Iterable[str], size: int) -> None:
    """Nobody else's, but for ``shown`` paths below it, which stay as they are mounted: work may lie in memory."""
    names = sorted({os.path.realpath(path) for path in shown})
    inside = [name for name in names if name.startswith(_SHARED_MEMORY + "/") and os.path.exists(name)]
    held = [(name, os.open(name, os.O_PATH | os.O_CLOEXEC)) for name in inside]
    try:
        with contextlib.suppress(OSError):  # where there is none, programs that need it say so themselves
            _mount("shm", _SHARED_MEMORY, "tmpfs", _NOSUID | _NODEV, f"size={size},mode=1777")
        for name, fd in held:
            _show(name, fd)
    finally:
        for _, fd in held:
            os.close(fd)


def _show(name: str, fd: int) -> None:
    if not os.path.exists(name):
        folder = name if stat.S_ISDIR(os.fstat(fd).st_mode) else os.path.dirname(name)
        os.makedirs(folder, exist_ok=True)
        if folder != name:
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    _mount(f"/proc/self/fd/{fd}", name, None, _BIND | _RECURSIVE)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    names = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    given = None if options is None else options.encode("ascii")
    kernel.call(_MOUNT[kernel.machine()], *names, flags, given)


def _change(path: str, attributes: _Attributes, flags: int) -> None:
    size = ctypes.sizeof(attributes)
    kernel.call(_SET_ATTRIBUTES, _HERE, os.fsencode(path), flags, ctypes.byref(attributes), size)
