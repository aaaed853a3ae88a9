"""The gate to a directory: files are reached by descriptors, one component at a time, never through a link.

A path is text only until it is split here; from then on every step is relative to an open directory
(``openat`` with ``O_NOFOLLOW``), so a directory that is swapped for a link meanwhile is refused by the
system, not by a comparison of strings that was true a moment ago.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

from .refusal import Refused

MOST_BYTES = 1024 * 1024
MOST_FILES = 5000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE = frozenset((".git", ".hg", ".svn", ".apex"))
_PROTECTED = frozenset(
    (".mcp.json", ".vscode", ".envrc", ".gitmodules", "conftest.py", "sitecustomize.py", "usercustomize.py")
)


def split(path: str) -> tuple[str, ...]:
    """The components of a relative path; empty for the directory itself. Raises Refused."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise Refused("E_ARG", "the path is not valid Unicode") from None
    if any(ord(c) < 32 or ord(c) == 127 for c in path) or len(path) > 1024:
        raise Refused("E_ARG", "the path has control characters or is longer than 1,024")
    if path.startswith("/"):
        raise Refused("E_PATH", "only paths relative to the workspace")
    parts = tuple(p for p in path.split("/") if p not in ("", "."))
    if ".." in parts:
        raise Refused("E_PATH", "the path leaves the workspace")
    if len(parts) > 64 or any(len(p.encode()) > 255 for p in parts):
        raise Refused("E_ARG", "the path is too deep or a name too long")
    return parts


def _plain(part: str) -> str:
    return unicodedata.normalize("NFKC", part).casefold().rstrip(". ")


def check_readable(parts: tuple[str, ...]) -> None:
    """Refuse what would show history or the framework's own files."""
    if any(_plain(p) in _PRIVATE for p in parts):
        raise Refused("E_PROTECTED", f"{'/'.join(parts)} is not for agents")


def check_writable(parts: tuple[str, ...], read_only: frozenset[str]) -> None:
    """Refuse files that run by themselves or decide the tests, and the files of the tests."""
    check_readable(parts)
    if any(_plain(p) in _PROTECTED or _plain(p).endswith(".pth") for p in parts):
        raise Refused("E_PROTECTED", f"{'/'.join(parts)} is protected")
    if "/".join(parts) in read_only:
        raise Refused("E_PROTECTED", f"{'/'.join(parts)} belongs to the tests")


class Gate:
    """One open directory. A context manager; every method raises Refused."""

    def __init__(self, root: Path) -> None:
        try:
            self._fd = os.open(root, _DIRECTORY)
        except OSError as error:
            raise Refused("E_IO", f"the workspace cannot be opened: {error.strerror}") from None

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def read(self, parts: tuple[str, ...]) -> bytes:
        """A regular file's content, at most ``MOST_BYTES``."""
        with self._parent(parts) as folder:
            try:
                fd = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            except OSError as error:
                raise _refusal(error, parts[-1], folder) from None
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise Refused("E_TYPE", f"{parts[-1]} is not a regular file")
            if info.st_size > MOST_BYTES:
                raise Refused("E_SIZE", f"{parts[-1]} is larger than {MOST_BYTES:,} bytes")
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read(MOST_BYTES)
        finally:
            os.close(fd)

    def files(self) -> Iterator[str]:
        """Paths of readable regular files in order; stops at ``MOST_FILES``."""
        yield from itertools.islice(self._walk(self._fd, ""), MOST_FILES)

    def replace_all(self, changes: Mapping[tuple[str, ...], bytes | None]) -> None:
        """Give files new contents (None removes one): all of them or none."""
        old = {parts: self._present(parts) for parts in changes}
        done: list[tuple[str, ...]] = []
        try:
            for parts, data in changes.items():
                self._replace(parts, data)
                done.append(parts)
        except Refused:
            for parts in reversed(done):
                with contextlib.suppress(Refused):
                    self._replace(parts, old[parts])
            raise

    def _present(self, parts: tuple[str, ...]) -> bytes | None:
        try:
            return self.read(parts)
        except Refused as refusal:
            if refusal.code == "E_MISSING":
                return None
            raise

    def _replace(self, parts: tuple[str, ...], data: bytes | None) -> None:
        if data is not None and len(data) > MOST_BYTES:
            raise Refused("E_SIZE", f"{parts[-1]} would be larger than {MOST_BYTES:,} bytes")
        with self._parent(parts, make=data is not None) as folder:
            name = parts[-1]
            try:
                mode = self._mode(name, folder)
                if data is None:
                    os.unlink(name, dir_fd=folder)
                else:
                    _write_then_rename(folder, name, data, mode)
            except OSError as error:
                raise _refusal(error, name, folder) from None

    def _mode(self, name: str, folder: int) -> int:
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return 0o644
        if stat.S_ISLNK(info.st_mode):
            raise Refused("E_SYMLINK", f"{name} is a link")
        if not stat.S_ISREG(info.st_mode):
            raise Refused("E_TYPE", f"{name} is not a regular file")
        return info.st_mode & 0o755

    @contextlib.contextmanager
    def _parent(self, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
        if not parts:
            raise Refused("E_TYPE", "the workspace itself is not a file")
        fd = os.dup(self._fd)
        try:
            for part in parts[:-1]:
                if make:
                    with contextlib.suppress(FileExistsError):
                        try:
                            os.mkdir(part, 0o755, dir_fd=fd)
                        except OSError as error:
                            if not isinstance(error, FileExistsError):
                                raise _refusal(error, part, fd) from None
                            raise
                try:
                    deeper = os.open(part, _DIRECTORY, dir_fd=fd)
                except OSError as error:
                    raise _refusal(error, part, fd) from None
                os.close(fd)
                fd = deeper
            yield fd
        finally:
            os.close(fd)

    def _walk(self, folder: int, prefix: str) -> Iterator[str]:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda e: e.name)
        for entry in found:
            if _plain(entry.name) in _PRIVATE or entry.name == "__pycache__":
                continue
            if entry.is_dir(follow_symlinks=False):
                try:
                    deeper = os.open(entry.name, _DIRECTORY, dir_fd=folder)
                except OSError:
                    continue  # swapped or gone since it was listed
                try:
                    yield from self._walk(deeper, f"{prefix}{entry.name}/")
                finally:
                    os.close(deeper)
            elif entry.is_file(follow_symlinks=False):
                yield prefix + entry.name


def _write_then_rename(folder: int, name: str, data: bytes, mode: int) -> None:
    # A rename puts a new inode under the name, so a second hard link to the old one is not written through.
    temporary = f".apex-{secrets.token_hex(8)}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(fd, mode)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _refusal(error: OSError, name: str, folder: int) -> Refused:
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
