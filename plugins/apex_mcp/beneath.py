"""Opening what lies beneath a directory, never through a link: by one system call, or one component at a time.

Linux 5.6 and later have ``openat2``, which refuses every link and every way out itself. Elsewhere, and where a filter
hides that call, each component is opened relative to the one before it, with ``O_NOFOLLOW``. Both are safe while
somebody renames things meanwhile; the step-by-step way is also the one that says what was wrong.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from .names import Parts
from .refusal import Refused

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@lru_cache(maxsize=1)
def _syscall() -> ctypes._NamedFuncPointer | None:
    if not sys.platform.startswith("linux"):
        return None
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    return call


@lru_cache(maxsize=8)
def _how(flags: int) -> ctypes.Array[ctypes.c_char]:
    how = _How(flags, 0, _BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS)
    return ctypes.create_string_buffer(bytes(how), ctypes.sizeof(how))


def openat2(folder: int, path: bytes, flags: int) -> int:
    """A descriptor of ``path`` beneath the open ``folder``, reached without any link. Raises OSError."""
    call = _syscall()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how = _how(flags)
    while True:
        fd = call(_OPENAT2, folder, path, how, len(how))
        if fd >= 0:
            return int(fd)
        if (number := ctypes.get_errno()) != errno.EINTR:
            raise OSError(number, os.strerror(number))


@lru_cache(maxsize=1)
def kernel_confines() -> bool:
    """True if ``openat2`` works here and keeps its word; asked once."""
    root = os.open("/", DIRECTORY)
    try:
        os.close(openat2(root, b".", DIRECTORY))
        os.close(openat2(root, b"..", DIRECTORY))
    except OSError as error:
        return error.errno == errno.EXDEV  # the second: the way up is refused
    finally:
        os.close(root)
    return False


class Root:
    """An open directory and what lies beneath it. ``kernel`` chooses ``openat2``; None takes it where it works."""

    def __init__(self, path: Path, *, kernel: bool | None = None) -> None:
        self._kernel = kernel_confines() if kernel is None else kernel
        try:
            self.fd = os.open(path, DIRECTORY)
        except OSError as error:
            raise Refused("E_IO", f"the workspace cannot be opened: {error.strerror}") from None

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)

    def open(self, parts: Parts, flags: int) -> int:
        """A descriptor of that file or directory. Raises Refused."""
        if self._kernel and parts:
            try:
                return openat2(self.fd, os.fsencode("/".join(parts)), flags)
            except OSError:
                pass  # the walk says which component is at fault, and is as safe
        return self._walk(parts, flags)

    @contextlib.contextmanager
    def folder(self, parts: Parts) -> Iterator[int]:
        """That directory, open. Raises Refused."""
        fd = self.open(parts, DIRECTORY)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def parent(self, parts: Parts, made: list[Parts] | None = None) -> Iterator[int]:
        """The directory of a file; with ``made``, missing ones are made and added there. Raises Refused."""
        if not parts:
            raise Refused("E_TYPE", "the workspace itself is not a file")
        if made is not None:
            self._make(parts[:-1], made)
        with self.folder(parts[:-1]) as fd:
            yield fd

    def _walk(self, parts: Parts, flags: int) -> int:
        fd = os.open(".", DIRECTORY, dir_fd=self.fd)
        for depth, part in enumerate(parts, 1):
            try:
                deeper = os.open(part, flags if depth == len(parts) else DIRECTORY, dir_fd=fd)
            except OSError as error:
                raise refusal(error, part, fd) from None
            finally:
                os.close(fd)
            fd = deeper
        return fd

    def _make(self, parts: Parts, made: list[Parts]) -> None:
        try:
            os.close(self.open(parts, DIRECTORY))
        except Refused as refused:
            if refused.code != "E_MISSING":
                raise
        else:
            return
        for depth in range(1, len(parts) + 1):
            with self.folder(parts[: depth - 1]) as fd:
                try:
                    os.mkdir(parts[depth - 1], 0o755, dir_fd=fd)
                    made.append(parts[:depth])
                except FileExistsError:
                    pass
                except OSError as error:
                    raise refusal(error, parts[depth - 1], fd) from None


def kind(folder: int, name: str) -> os.stat_result | None:
    """What stands under a name, None if nothing does. Raises Refused unless it is a regular file."""
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refusal(error, name, folder) from None
    if stat.S_ISLNK(info.st_mode):
        raise Refused("E_SYMLINK", f"{name} is a link")
    if not stat.S_ISREG(info.st_mode):
        raise Refused("E_TYPE", f"{name} is not a regular file")
    return info


def refusal(error: OSError, name: str, folder: int) -> Refused:
    """The code for what the system said about a name in an open directory."""
    try:
        linked = stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        linked = False
    if linked or error.errno == errno.ELOOP:
        return Refused("E_SYMLINK", f"{name} is a link")
    if error.errno == errno.ENOENT:
        return Refused("E_MISSING", f"no {name}")
    if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.ENXIO):
        return Refused("E_TYPE", f"{name} is not of the right type")
    if error.errno in (errno.ENAMETOOLONG, errno.EINVAL):
        return Refused("E_ARG", f"{name[:40]} is not a possible name")
    return Refused("E_IO", f"{name}: {error.strerror}")
