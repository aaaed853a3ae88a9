"""The code that makes episodes and verdicts, as digests: the same from a checkout and from a wheel, wherever they lie."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import ArtifactError
from ..hookspecs import PROJECT
from .plan import digest_of

if TYPE_CHECKING:
    from .artifacts import RunFolder

GONE_ON = "gone_on"
"""Key in run.json of other code than before, with which a run was gone on with."""
_ONLY_TELLS: Final[Mapping[str, frozenset[str]]] = {
    PROJECT: frozenset({"benches", "cli", "scripts", "testing"}),
    "apex_reports": frozenset({"*"}),
}
"""Package -> its parts that make neither episodes nor verdicts: what is told of them may change. ``*``: all."""
_SHOWN = 3


def code_digests() -> dict[str, str]:
    """Package -> sha256 over its files, for the kernel and every plugin that is installed, blocked ones too.

    What plugins need besides stands with its version in plans and locks.
    """
    found = {}
    for name in sorted({PROJECT, *_packages()}):
        left_out = _ONLY_TELLS.get(name, frozenset())
        spec = None if "*" in left_out else _spec(name)
        if spec is not None and spec.submodule_search_locations:
            found[name] = tree_digest(Path(spec.submodule_search_locations[0]), left_out)
        elif spec is not None and spec.origin and os.path.isfile(spec.origin):
            found[name] = hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    return found


def _packages() -> Iterator[str]:
    """Of every plugin, the package that its module is in; below a namespace, which others share, the first of its own."""
    for point in importlib.metadata.entry_points(group=PROJECT):
        names = list(accumulate(point.module.split("."), "{}.{}".format))
        yield next((name for name in names if (spec := _spec(name)) is None or spec.origin), names[-1])


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a plugin that is broken: whoever loads it says so
        return None


def tree_digest(root: Path, left_out: frozenset[str] = frozenset()) -> str:
    """sha256 over names and contents of a package's files; neither its place nor what Python caches in it counts."""
    total = hashlib.sha256()
    for name in sorted(_names(root, left_out)):
        with open(os.path.join(root, name), "rb") as file:
            total.update(f"{name}\0".encode() + hashlib.sha256(file.read()).digest())
    return total.hexdigest()


def _names(root: Path, left_out: frozenset[str]) -> Iterator[str]:
    for home, folders, files in os.walk(root):  # many times as fast as Path.rglob, and asked at the start of every run
        inside = home[len(str(root)) :].replace(os.sep, "/").lstrip("/")
        out = frozenset() if inside else left_out
        folders[:] = [name for name in folders if name not in out and not _passing(name)]
        yield from (f"{inside}/{name}".lstrip("/") for name in files if not _passing(name))


def _passing(name: str) -> bool:
    return name == "__pycache__" or name.startswith(".")


def code_changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Which packages differ, as a phrase; empty when none does."""
    names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    shown = [f"{name} {before.get(name, 'none')[:12]} -> {now.get(name, 'none')[:12]}" for name in names[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def note_code(folder: RunFolder) -> str:
    """Of a run that is gone on with: write down other code than it had so far, and say so; empty for the same code.

    Raises ArtifactError, RunFolderError.
    """
    from .artifacts import read_run

    run, now = read_run(folder.path), code_digests()
    try:
        before = ([run, *run.get(GONE_ON, ())])[-1].get("code") or {}
        changed = code_changes(before, now)
    except (AttributeError, TypeError) as error:
        raise ArtifactError(
            f"{folder.path / 'run.json'}: what it says of code is damaged", "start a new run"
        ) from error
    if not changed:
        return ""
    what = (
        f"gone on with other code than before: {changed}"
        if before
        else f"gone on with code {digest_of(now)[:12]}; with which it was begun is not on file"
    )
    folder.note(GONE_ON, what=what, code=now)
    return what
