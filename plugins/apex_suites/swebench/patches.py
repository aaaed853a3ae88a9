"""Unified diffs: which files they touch, and what those hold afterwards. Nothing of a patch is run or believed."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from apex_framework.errors import GitError
from apex_framework.git import Repository

_HEADER = re.compile(r'^(?:---|\+\+\+) (?:"?[ab]/([^\t\n]+?)"?|/dev/null)(?:\t.*)?$', re.MULTILINE)
_RENAME = re.compile(r'^(?:rename|copy) (?:from|to) "?([^\t\n]+?)"?$', re.MULTILINE)
_NAMED = re.compile(r"^diff --git a/(\S+) b/(\S+)$", re.MULTILINE)
_NEW = re.compile(r"^--- /dev/null\n\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)
_MOVED = re.compile(r'^rename from "?([^\t\n]+?)"?$', re.MULTILINE)
_GONE = re.compile(r"^--- (?:a/)?([^\t\n]+).*\n\+\+\+ /dev/null", re.MULTILINE)


class PatchError(Exception):
    """A patch does not apply; the text says why in a line."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Paths that a diff names: those that it changes or makes, and those that are not there before or after it."""

    paths: tuple[str, ...]
    new: frozenset[str]
    gone: frozenset[str]


def touched(patch: str) -> Touched:
    """The files of a diff, in its order. Lines inside hunks that look like headers are believed: a name too many harms nobody."""
    found: dict[str, None] = {}
    for pattern in (_NAMED, _HEADER, _RENAME):
        for match in pattern.finditer(patch):
            found.update(dict.fromkeys(name for name in match.groups() if name))
    safe = tuple(name for name in found if _is_inside(name))
    return Touched(safe, frozenset(_NEW.findall(patch)), frozenset((*_GONE.findall(patch), *_MOVED.findall(patch))))


def apply(patch: str, root: Path, *, into: Path | None = None) -> dict[str, Path | None]:
    """Apply a diff to files below ``root``; what became of each path that it changes, a file below ``into`` or None (removed).

    Without ``into`` the files are put back below ``root``, which must be a fresh copy. As git applies it, without fuzz.
    Raises PatchError; nothing is changed then.
    """
    text = patch if patch.endswith("\n") else f"{patch}\n"
    with tempfile.TemporaryDirectory(prefix="apex-patch-") as name:
        place = Path(name)
        before, after = place / "before", place / "after"
        before.mkdir()
        after.mkdir()
        for path in touched(text).paths:
            if (root / path).is_file() and not (root / path).is_symlink():
                (before / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / path, before / path)
        try:
            repository = Repository.init(place / "git")
            base = repository.snapshot(before, "base")
            new = repository.apply(text, base, "patch")
            changed = repository.changed(base, new)
            repository.check_out(new, after)
        except GitError as error:
            raise PatchError(error.cause) from None
        target = into if into is not None else root
        made: dict[str, Path | None] = {}
        for path, kind in changed.items():
            made[path] = None if kind == "D" else target / path
            if kind == "D":
                (target / path).unlink(missing_ok=True)
                continue
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(target / path):
                (target / path).unlink()
            shutil.copy2(after / path, target / path, follow_symlinks=False)
        return made


def _is_inside(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/") and "\0" not in name
