"""System calls that Python has no function for. Every failure is an OSError."""

from __future__ import annotations

import ctypes
import os
import platform

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_SECCOMP = 1, 4, 24, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_NAME = 36, 38, 15
_CAPSET = {"x86_64": 126, "aarch64": 91}
_MOST_CAPABILITIES = 64


class Unsupported(OSError):
    """This system has no such means."""


def machine() -> str:
    """``x86_64`` or ``aarch64``. Raises Unsupported for any other."""
    name = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    if platform.system() != "Linux" or name not in _CAPSET or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise Unsupported(0, f"no confinement is written for {platform.system()} on {name}")
    return name


def call(number: int, *arguments: object) -> int:
    """A system call by its number; integers are passed as 64 bits."""
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *given))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def prctl(option: int, *arguments: int) -> None:
    """``prctl(2)``."""
    padded = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
    if _libc.prctl(option, *padded) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def be_called(name: bytes) -> None:
    """The name of this process in /proc, of at most 15 bytes."""
    buffer = ctypes.create_string_buffer(name)
    prctl(PR_SET_NAME, ctypes.addressof(buffer))


def no_new_privileges() -> None:
    """From here on no program gives this process rights that it has not got, whatever bits its file has."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Give up every privilege, for good."""
    for capability in range(_MOST_CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # the last one that this kernel knows was dropped, or we have none to drop
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    call(_CAPSET[machine()], header, nothing)
