"""Unified diffs: which files they touch, and what those hold afterwards. Nothing of a patch is run or believed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from apex_framework.errors import GitError
from apex_framework.git import Repository

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_PAIR = re.compile(rf"({_QUOTED}|a/\S+|a/.+?) ({_QUOTED}|b/.+)")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_ONE_SIDED = {"new file mode ": "new", "deleted file mode ": "gone"}
_MOVED = {"rename from ": "gone", "rename to ": "new", "copy from ": "", "copy to ": "new"}
_OURS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class PatchError(Exception):
    """A patch does not apply; the text says why in a line."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Paths that a diff names: those that it changes or makes, and those that are not there before or after it."""

    paths: tuple[str, ...]
    new: frozenset[str]
    gone: frozenset[str]


def touched(patch: str) -> Touched:
    """The files of a diff, in its order, as its headers name them; what lines of hunks look like is all one."""
    found: dict[str, None] = {}
    sides: dict[str, set[str]] = {"new": set(), "gone": set(), "": set()}
    before = after = ""
    old = new = 0  # lines of a hunk that are still to come

    def see(name: str, side: str = "") -> None:
        if name and _is_inside(name):
            found[name] = None
            sides[side].add(name)

    for line in patch.split("\n"):
        if old > 0 or new > 0:
            old -= line[:1] in ("", " ", "-")
            new -= line[:1] in ("", " ", "+")
        elif match := _HUNK.match(line):
            old, new = (1 if count is None else int(count) for count in match.groups())
        elif line.startswith("diff --git ") and (pair := _named(line[11:])):
            before, after = pair
            see(before)
            see(after)
        elif start := next((start for start in _ONE_SIDED if line.startswith(start)), ""):
            see(after if _ONE_SIDED[start] == "new" else before, _ONE_SIDED[start])
        elif start := next((start for start in _MOVED if line.startswith(start)), ""):
            see(_plain(line[len(start) :]), _MOVED[start])
        elif line.startswith("--- "):
            before = _side(line[4:], "a/")
            see(before)
        elif line.startswith("+++ "):
            after = _side(line[4:], "b/")
            see(after, "" if before else "new")
            see(before, "" if after else "gone")
    return Touched(tuple(found), frozenset(sides["new"]), frozenset(sides["gone"]))


def _named(rest: str) -> tuple[str, str] | None:
    """Both names of a line ``diff --git``. Where they are equal, spaces in them do no harm."""
    half = len(rest) // 2
    if rest.startswith("a/") and rest[half:] == f" b/{rest[2:half]}":
        return rest[2:half], rest[2:half]
    match = _PAIR.fullmatch(rest)
    return (_plain(match[1])[2:], _plain(match[2])[2:]) if match else None


def _side(name: str, prefix: str) -> str:
    """A name of a line ``---`` or ``+++``, which a tab ends; empty for /dev/null."""
    name = _plain(name.partition("\t")[0])
    return "" if name == "/dev/null" else name.removeprefix(prefix)


def _plain(name: str) -> str:
    """A name that git may have put in quotes, as C does: bytes in octal."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return name

    def meant(match: re.Match[bytes]) -> bytes:
        text = match[1]
        return bytes([int(text, 8) & 255]) if len(text) == 3 else _LETTERS.get(text, text)

    return _ESCAPE.sub(meant, name[1:-1].encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def apply(patch: str, root: Path, *, into: Path | None = None) -> dict[str, Path | None]:
    """Apply a diff to files below ``root``; what became of each path that it changes, a file below ``into`` or None (removed).

    Without ``into`` the files are put back below ``root``, which must be a fresh copy. As git applies it, without fuzz.
    Raises PatchError; a part of it may be below ``root`` then.
    """
    text = patch if patch.endswith("\n") else f"{patch}\n"
    encoded(text)
    with tempfile.TemporaryDirectory(prefix="apex-patch-") as name:
        place = Path(name)
        before, after = place / "before", place / "after"
        before.mkdir()
        after.mkdir()
        try:
            _bring(touched(text), root, before)
            repository = Repository.init(place / "git")
            base = repository.snapshot(before, "base")
            new = repository.apply(text, base, "patch")
            changed = repository.changed(base, new)
            left = repository.check_out(new, after)
            # Tests run in a sandbox: a link may lead anywhere, as it may for git.
            for path in left.outside_links:
                (after / path).parent.mkdir(parents=True, exist_ok=True)
                (after / path).symlink_to(os.fsdecode(repository.file(new, path)))
            for path in left.submodules:
                (after / path).mkdir(parents=True, exist_ok=True)
        except GitError as error:
            raise PatchError(error.cause) from None
        except OSError as error:
            raise _refusal(error) from None
        return lay_out(changed, after, into if into is not None else root)


def encoded(patch: str) -> bytes:
    """The bytes of a diff. Raises PatchError."""
    try:
        return patch.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise PatchError("it holds half of a character (a lone surrogate)") from None


def lay_out(changed: Mapping[str, str], source: Path, target: Path) -> dict[str, Path | None]:
    """Bring what changed (``D``: removed) from one folder to another: files, links, empty folders. Raises PatchError."""
    try:
        # What goes, goes first: a file may come in the place of a folder.
        for path in (path for path, kind in changed.items() if kind == "D"):
            (target / path).unlink(missing_ok=True)
            _remove_empty((target / path).parent, target)
        coming = [path for path, kind in changed.items() if kind != "D"]
        # Links come last: nothing is written through one.
        for path in sorted(coming, key=lambda path: (source / path).is_symlink()):
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(target / path):
                (target / path).unlink()
            if (source / path).is_dir() and not (source / path).is_symlink():
                (target / path).mkdir()
            else:
                shutil.copy2(source / path, target / path, follow_symlinks=False)
    except OSError as error:
        raise _refusal(error) from None
    return {path: None if kind == "D" else target / path for path, kind in changed.items()}


def _bring(named: Touched, root: Path, into: Path) -> None:
    """Copies of what a diff names, and of files and links in the place of their folders. Raises PatchError, OSError."""
    for path in named.paths:
        parts = path.split("/")
        for above in ("/".join(parts[:number]) for number in range(1, len(parts))):
            if os.path.islink(root / above):  # git sees that the path lies beyond it
                path = above
                break
            if os.path.isfile(root / above) and above not in named.gone:
                raise PatchError(f"{path}: {above} is a file")
        # A name that no file can have (too long, say) is none of a file that is there.
        if os.path.islink(root / path) or os.path.isfile(root / path):
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(into / path):
                shutil.copy2(root / path, into / path, follow_symlinks=False)


def _refusal(error: OSError) -> Exception:
    """What is this machine's fault is none of the patch."""
    return error if error.errno in _OURS else PatchError(f"its files cannot be made: {error.strerror}")


def _remove_empty(folder: Path, top: Path) -> None:
    """As git does, which knows of no empty folders."""
    with contextlib.suppress(OSError):
        while folder != top:
            folder.rmdir()
            folder = folder.parent


def _is_inside(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/") and "\0" not in name
