"""Reads a repository that others wrote without starting git in it: its configuration, hooks and alternates are not looked at.

Branches and tags are read as files; the object files are linked or copied, by descriptors and no other kind of file, into a
repository of ours, from which git then takes what is wanted. What is in them git checks by itself: an object's name is the
hash of its content.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..errors import GitError
from . import trees
from .names import OID, checked_name

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PACK: Final = re.compile(r"pack-[0-9a-f]{40}\.(?:pack|idx)")
_FAN: Final = re.compile(r"[0-9a-f]{2}")
_LOOSE: Final = re.compile(r"[0-9a-f]{38}")
_HASH: Final = re.compile(r"[0-9a-f]{40}")
_MOST_REFS: Final = 64 * 1024**2
_ELSEWHERE: Final = {
    "commondir": "is a worktree of another repository",
    "objects/info/alternates": "borrows objects from another repository",
    "objects/info/http-alternates": "borrows objects from another repository",
    "reftable": "keeps its branches in a reftable",
}


class Source:
    """An open repository of others: ``folder`` holds a ``.git``, or is a bare one. Every method raises GitError.

    With ``beneath`` it is reached from there without a link on the way.
    """

    def __init__(self, folder: Path, *, beneath: Path | None = None) -> None:
        self._place = folder
        self._fd = _open_repository(folder, beneath)
        try:
            self._look()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def _look(self) -> None:
        if self._kind("HEAD") != stat.S_IFREG or self._kind("objects") != stat.S_IFDIR:
            raise GitError(
                "E_REPO", f"{self._place} is not a git repository", "name the folder that holds .git, or a bare one"
            )
        for name, what in _ELSEWHERE.items():
            if self._kind(name):
                raise GitError("E_REPO", f"{self._place} {what}", "clone it with git first, and name the clone")

    def resolve(self, revision: str) -> str:
        """The object that ``HEAD``, a branch, a tag or a full hash stands for, not yet peeled. Raises GitError (``E_REF``)."""
        if _HASH.fullmatch(revision):
            return revision
        if revision == "HEAD":
            names = ["HEAD"]
        else:
            short = checked_name(revision)
            names = [short] if short.startswith(("refs/heads/", "refs/tags/")) else []
            names += [f"refs/heads/{short}", f"refs/tags/{short}"]
        for name in names:
            if found := self._ref(name):
                return found
        raise GitError(
            "E_REF",
            f"no commit {revision[:60]} in {self._place}",
            "give the whole hash" if OID.fullmatch(revision) else "",
        )

    def _ref(self, name: str) -> str:
        for _ in range(5):
            text = self._text(name, 4096).strip()
            if not text.startswith("ref: "):
                break
            name = text.removeprefix("ref: ").strip()
            if not name.startswith("refs/heads/"):
                raise GitError("E_REF", f"{self._place}: HEAD is no branch")
            checked_name(name)
        text = text or self._packed(name)
        if text and not _HASH.fullmatch(text):
            raise GitError("E_REPO", f"{self._place}: {name} is damaged, or of another kind of hash than SHA-1")
        return text

    def _packed(self, name: str) -> str:
        for line in self._text("packed-refs", _MOST_REFS).splitlines():
            oid, _, found = line.partition(" ")
            if found == name:
                return oid
        return ""

    @property
    def shallow(self) -> str:
        """Commits whose parents are not there, a line each."""
        lines = self._text("shallow", _MOST_REFS).split()
        if not all(_HASH.fullmatch(line) for line in lines):
            raise GitError("E_REPO", f"{self._place}: the file shallow is damaged")
        return "".join(f"{line}\n" for line in lines)

    def give_objects(self, into: Path) -> None:
        """Link or copy every object file to the folder ``into``, which is ours."""
        try:
            with _inner(self._fd, "objects") as objects:
                for name in os.listdir(objects):
                    if name == "pack":
                        self._give(objects, name, into, _PACK)
                    elif _FAN.fullmatch(name):
                        self._give(objects, name, into, _LOOSE)
        except OSError as error:
            raise GitError("E_REPO", f"{self._place}: its objects cannot be read: {error.strerror}") from None

    def _give(self, objects: int, name: str, into: Path, wanted: re.Pattern[str]) -> None:
        with _inner(objects, name) as folder:
            names = [found for found in os.listdir(folder) if wanted.fullmatch(found)]
            if not names:
                return
            (into / name).mkdir(exist_ok=True)
            with _inner(os.open(into, _FOLDER), name, owned=True) as ours:
                # An index comes after its pack, so that git never sees one alone.
                for found in sorted(names, reverse=True):
                    _give_file(found, folder, ours)

    def _kind(self, path: str) -> int:
        try:
            return stat.S_IFMT(os.stat(path, dir_fd=self._fd, follow_symlinks=False).st_mode)
        except OSError:
            return 0

    def _text(self, path: str, most: int) -> str:
        """A small file's text, empty where there is none."""
        *folders, name = path.split("/")
        with contextlib.ExitStack() as stack:
            at = self._fd
            try:
                for part in folders:
                    at = stack.enter_context(_inner(at, part))
                fd = os.open(name, _READ, dir_fd=at)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR):
                    return ""
                raise GitError("E_REPO", f"{self._place}: {trees.shown(path)}: {error.strerror}") from None
            with os.fdopen(fd, "rb") as file:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    return ""
                data = file.read(most + 1)
        if len(data) > most:
            raise GitError("E_LIMIT", f"{self._place}: {path} is larger than {most:,} bytes")
        return data.decode("utf-8", "replace")


def _open_repository(folder: Path, beneath: Path | None) -> int:
    try:
        if beneath is None:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            fd = os.open(beneath, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for part in folder.relative_to(beneath).parts:
                fd = _step(fd, part)
    except OSError as error:
        raise GitError("E_REPO", f"{folder} cannot be opened: {error.strerror}") from None
    try:
        kind = stat.S_IFMT(os.stat(".git", dir_fd=fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return fd
    except OSError as error:
        os.close(fd)
        raise GitError("E_REPO", f"{folder} cannot be read: {error.strerror}") from None
    try:
        return _step(fd, ".git")
    except OSError:
        what = "a link" if kind == stat.S_IFLNK else "a file that points elsewhere"
        raise GitError(
            "E_REPO", f"{folder}/.git is {what}", "name the repository itself, not a worktree of it"
        ) from None


def _step(fd: int, part: str) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _inner(folder: int, name: str, *, owned: bool = False) -> Iterator[int]:
    try:
        fd = os.open(name, _FOLDER, dir_fd=folder)
    finally:
        if owned:
            os.close(folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _give_file(name: str, source: int, target: int) -> None:
    fd = os.open(name, _READ, dir_fd=source)
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return
        with contextlib.suppress(OSError, RuntimeError):
            os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
            made = os.stat(name, dir_fd=target, follow_symlinks=False)
            if (made.st_ino, made.st_dev) == (info.st_ino, info.st_dev):
                return
            os.unlink(name, dir_fd=target)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=target), "wb") as copy:
            while piece := file.read(1024**2):
                copy.write(piece)
