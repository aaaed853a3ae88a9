"""DONE: the run is complete, and these are the hashes of its files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..errors import ArtifactError
from ..ports import Files

DONE = "DONE"
"""Name of the manifest; its presence says that the run is complete."""
STORE = "budget.sqlite3"
"""The books of the run's own ceiling."""
_FREE = ("report", "export", STORE, f"{STORE}-wal", f"{STORE}-shm", f"{STORE}-journal")
"""What is no part of it: made again from the rest, the exporters' own, and books that go on when failed episodes are run again."""


def write_manifest(folder: Path, files: Files) -> None:
    """Write ``<sha256>  <path>`` per file, sorted by path."""
    lines = [f"{_hash(folder / name)}  {name}" for name in _names(folder)]
    files.replace(folder / DONE, ("\n".join(lines) + "\n").encode())


def verify_manifest(folder: Path) -> None:
    """Raises ArtifactError that names the first file which is missing or changed, or a missing manifest."""
    try:
        lines = (folder / DONE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise ArtifactError(f"{folder} is not finished: no {DONE}", f"apex resume {folder}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"cannot read {folder / DONE}: {error}", "run it again") from error
    if not lines:
        raise ArtifactError(f"{folder / DONE} names no file", "run it again")
    for line in lines:
        digest, _, name = line.partition("  ")
        if not (folder / name).is_file() or _hash(folder / name) != digest:
            raise ArtifactError(f"{folder / name} is missing or was changed after the run", "run it again")


def _names(folder: Path) -> list[str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(folder) for path in paths)
    return sorted(
        name.as_posix()
        for name in names
        if name.parts[0] not in _FREE and name.as_posix() != DONE and not name.name.startswith(".")
    )


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
