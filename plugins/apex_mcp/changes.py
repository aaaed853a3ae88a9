"""Changes to several files that happen whole or not at all, also when the process is killed half-way.

New contents are staged beside the files, in ``.apex/changes-…``, with a second link to each old file and a plan that
names them. Then the staged files are renamed to their places; removing the plan is the moment of commit. Whoever finds a
plan later puts the old files back; one that is not ours (see ``plans``), or that does not fit the folder any more, is set aside
with a warning and never followed. A change of one file needs no plan: a rename is atomic. Every step is relative to an
open directory, so nothing that is swapped meanwhile leads out. Nothing is synced: this holds when a process dies, not
when the machine does.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .beneath import DIRECTORY, FILE, Root, kind, refusal
from .names import Parts
from .plans import MOST_BYTES, PLAN, Damaged, Entry, Plan, read_plan
from .refusal import Refused

_HOME = (".apex",)
_STAGE, _ASIDE = "changes-", "aside-"
_UNFIT = frozenset((errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG))
"""What the system says where something else has come to stand in the way: to wait would not help."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Put:
    """What is to stand under a path: bytes, or (``data`` None) the file that stands under ``source`` now.

    With bytes, ``source`` names the file whose mode is taken; without, the mode stays, and new files get 0644.
    """

    data: bytes | None = None
    source: Parts | None = None


def commit(root: Root, changes: Mapping[Parts, Put | None]) -> None:
    """Make all of the changes (None removes a file) or none. Raises Refused.

    The caller holds the root alone; ``recover`` must have been called before.
    """
    for parts in changes:
        if any(parts[:n] in changes for n in range(1, len(parts))):
            raise Refused("E_ARG", f"{'/'.join(parts)} lies below another path of the same change")
    if not changes:
        return
    with _home(root) as home:
        name = f"{_STAGE}{secrets.token_hex(8)}"
        os.mkdir(name, 0o700, dir_fd=home)
        stage = os.open(name, DIRECTORY, dir_fd=home)
        made: list[Parts] = []
        plan: list[Entry] = []
        begun = 0
        try:
            for number, (parts, put) in enumerate(changes.items()):
                plan.append(_prepare(root, stage, number, parts, put, alone=len(changes) == 1))
            if len(plan) > 1:
                made = _missing(root, [e.parts for e in plan if e.new])
                _write(stage, f"{PLAN}.part", Plan(tuple(plan), tuple(made)).sealed(_place(root, name)), 0o600)
                os.rename(f"{PLAN}.part", PLAN, src_dir_fd=stage, dst_dir_fd=stage)
                made_here: list[Parts] = []
            else:
                made_here = made
            for number, entry in enumerate(plan):
                begun += 1
                _apply(root, stage, number, entry, made_here)
            if len(plan) > 1:
                os.unlink(PLAN, dir_fd=stage)
        except BaseException:
            try:
                _take_back(root, home, name, stage, plan[:begun], made)
            except Damaged as error:
                _set_aside(home, name, stage, str(error))
                raise Refused("E_IO", f"a change was broken off half done: {error}") from None
            raise
        _sweep(home, name, stage)


def present(root: Root, parts: Parts) -> os.stat_result | None:
    """What is known of a regular file, None where there is none. Raises Refused for anything else."""
    try:
        with root.parent(parts) as folder:
            return kind(folder, parts[-1])
    except Refused as refused:
        if refused.code == "E_MISSING":
            return None
        raise


def unfinished(root: Root) -> bool:
    """True if something of ours may be left from a process that died. Cheap."""
    try:
        os.stat(_HOME[0], dir_fd=root.fd, follow_symlinks=False)
        with root.folder(_HOME) as home:
            names = os.listdir(home)
    except (OSError, Refused):
        return False
    return not names or any(name.startswith(_STAGE) for name in names)


def recover(root: Root) -> None:
    """Take back what a process that died had half done. The caller holds the root alone. Raises Refused."""
    try:
        home = root.open(_HOME, DIRECTORY)
    except Refused:
        return  # not ours
    try:
        for name in [n for n in os.listdir(home) if n.startswith(_STAGE)]:
            try:
                stage = os.open(name, DIRECTORY, dir_fd=home)
            except OSError:
                continue
            try:
                plan = read_plan(stage, _place(root, name))
                _take_back(root, home, name, stage, list(plan.entries), list(plan.made))
            except Damaged as error:
                _set_aside(home, name, stage, str(error))
    finally:
        os.close(home)
    with contextlib.suppress(OSError):
        os.rmdir(_HOME[0], dir_fd=root.fd)


@contextlib.contextmanager
def _home(root: Root) -> Iterator[int]:
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(_HOME[0], 0o700, dir_fd=root.fd)
        home = os.open(_HOME[0], DIRECTORY, dir_fd=root.fd)
    except OSError as error:
        raise refusal(error, _HOME[0], root.fd) from None
    try:
        yield home
    except OSError as error:
        raise Refused("E_IO", f"nothing was changed: {error.strerror}") from None
    finally:
        os.close(home)
        with contextlib.suppress(OSError):  # not empty: somebody else's
            os.rmdir(_HOME[0], dir_fd=root.fd)


def _prepare(root: Root, stage: int, number: int, parts: Parts, put: Put | None, *, alone: bool) -> Entry:
    info = present(root, parts)
    if info is not None and not alone:
        _second_link(root, parts, stage, f"old-{number}")
    if put is None:
        if info is None:
            raise Refused("E_MISSING", f"no {parts[-1]}")
    elif put.data is None:
        _second_link(root, put.source or parts, stage, f"new-{number}")
    else:
        if len(put.data) > MOST_BYTES:
            raise Refused("E_SIZE", f"{parts[-1]} would be larger than {MOST_BYTES:,} bytes")
        like = info if put.source in (None, parts) else present(root, put.source or parts)
        _write(stage, f"new-{number}", put.data, (like.st_mode & 0o755) if like else 0o644)
    return Entry(parts, info is not None, put is not None)


def _second_link(root: Root, parts: Parts, stage: int, name: str) -> None:
    with root.parent(parts) as folder:
        if kind(folder, parts[-1]) is None:
            raise Refused("E_MISSING", f"no {parts[-1]}")
        try:
            os.link(parts[-1], name, src_dir_fd=folder, dst_dir_fd=stage, follow_symlinks=False)
        except FileNotFoundError:
            raise Refused("E_MISSING", f"no {parts[-1]}") from None
        except OSError:  # a file system without hard links, or another owner's file
            _copy(root, parts, stage, name)
    kind(stage, name)  # refuses what was swapped for something else since


def _copy(root: Root, parts: Parts, stage: int, name: str) -> None:
    fd = root.open(parts, FILE)
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise Refused("E_TYPE", f"{parts[-1]} is not a regular file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Refused("E_SIZE", f"{parts[-1]} is larger than {MOST_BYTES:,} bytes")
    _write(stage, name, data, info.st_mode & 0o755)


def _write(folder: int, name: str, data: bytes, mode: int) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(fd, mode)


def _apply(root: Root, stage: int, number: int, entry: Entry, made: list[Parts]) -> None:
    with root.parent(entry.parts, made if entry.new else None) as folder:
        name = entry.parts[-1]
        kind(folder, name)
        try:
            if entry.new:
                # A new inode takes the name, so a second link to the old one is not written through.
                os.rename(f"new-{number}", name, src_dir_fd=stage, dst_dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        except OSError as error:
            raise refusal(error, name, folder) from None


def _missing(root: Root, paths: list[Parts]) -> list[Parts]:
    """Folders that will have to be made for these files, outer ones first."""
    missing: dict[Parts, None] = {}
    for parts in paths:
        for depth in range(1, len(parts)):
            if parts[:depth] not in missing:
                try:
                    os.close(root.open(parts[:depth], DIRECTORY))
                except Refused as refused:
                    if refused.code != "E_MISSING":
                        raise
                    missing[parts[:depth]] = None
    return list(missing)


def _take_back(root: Root, home: int, name: str, stage: int, entries: list[Entry], made: list[Parts]) -> None:
    try:
        _undo(root, stage, entries, made)
    except (Refused, OSError) as error:
        if (isinstance(error, Refused) and error.code != "E_IO") or getattr(error, "errno", 0) in _UNFIT:
            raise Damaged(f"it does not fit the folder: {error}") from None
        os.close(stage)  # the plan stays for the next ``recover``
        raise Refused("E_IO", f"a change is half done and cannot be taken back yet: {error}") from None
    _sweep(home, name, stage)


def _place(root: Root, name: str) -> str:
    """Which folder, and which staging folder in it, a plan is of."""
    info = os.fstat(root.fd)
    return f"{info.st_dev}:{info.st_ino}:{name}"


def _set_aside(home: int, name: str, stage: int, why: str) -> None:
    """Leave a staging folder to people, under a name that is not looked at again."""
    os.close(stage)
    aside = f"{_ASIDE}{name.removeprefix(_STAGE)[:64]}-{secrets.token_hex(4)}"
    try:
        os.rename(name, aside, src_dir_fd=home, dst_dir_fd=home)
    except OSError as error:
        raise Refused("E_IO", f"a plan of a change is not ours and cannot be set aside: {error.strerror}") from None
    _log.warning("a plan of a change was not followed, %s; it lies in the workspace as %s/%s", why, _HOME[0], aside)


def _undo(root: Root, stage: int, entries: list[Entry], made: list[Parts]) -> None:
    for number, entry in reversed(list(enumerate(entries))):
        if entry.old and _there(stage, f"old-{number}"):
            with root.parent(entry.parts, []) as folder:
                # Where the old file is still in its place this does nothing: both names are of one inode.
                os.rename(f"old-{number}", entry.parts[-1], src_dir_fd=stage, dst_dir_fd=folder)
        elif not entry.old and entry.new and not _there(stage, f"new-{number}"):
            with contextlib.suppress(Refused, FileNotFoundError), root.parent(entry.parts) as folder:
                os.unlink(entry.parts[-1], dir_fd=folder)
    for parts in reversed(made):
        with contextlib.suppress(Refused, OSError), root.parent(parts) as folder:
            os.rmdir(parts[-1], dir_fd=folder)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(PLAN, dir_fd=stage)


def _there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _sweep(home: int, name: str, stage: int) -> None:
    """Remove a staging folder and close it; what cannot be removed waits for the next ``recover``."""
    with contextlib.suppress(OSError):
        for left in os.listdir(stage):
            with contextlib.suppress(OSError):
                os.unlink(left, dir_fd=stage)
        os.rmdir(name, dir_fd=home)
    os.close(stage)
