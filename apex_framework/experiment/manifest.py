"""DONE: the run is complete, and these are the hashes of its files; LINES: of every line of those that have lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import ArtifactError
from ..ports import Files

DONE = "DONE"
"""Name of the manifest; its presence says that the run is complete."""
LINES = "LINES"
"""Per file of lines the first 8 hex digits of every line's sha256, so that a changed line can be named."""
_DIGITS = 8
STORE = "budget.sqlite3"
"""The books of the run's own ceiling."""
REPORTS = "report"
"""Folder of a run for what is made again from the rest, and for what else its reader puts there."""
_FREE = (REPORTS, "export", STORE, f"{STORE}-wal", f"{STORE}-shm", f"{STORE}-journal")
"""What is no part of it: made again from the rest, the exporters' own, and books that go on when failed episodes are run again."""


def write_manifest(folder: Path, files: Files) -> None:
    """Write the lines' digests, then ``<sha256>  <path>`` per file, sorted by path."""
    rows = [
        {"file": name, "lines": "".join(_of_lines(folder / name))} for name in _names(folder) if name.endswith(".jsonl")
    ]
    files.replace(folder / LINES, b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    lines = [f"{_hash(folder / name)}  {name}" for name in _names(folder)]
    files.replace(folder / DONE, ("\n".join(lines) + "\n").encode())


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is not what the manifest says, and which line of it, where that can be told."""

    path: Path
    what: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.path}{'' if self.line is None else f':{self.line}'} {self.what}"


def verify_manifest(folder: Path) -> None:
    """Raises ArtifactError that names the first file which is missing or changed, or a missing manifest."""
    for damage in damages(folder):
        raise ArtifactError(
            f"{damage.path} is missing or was changed after the run",
            f"apex verify {folder} names all of it; restore it, or run it again",
        )


def verify_lines(folder: Path, results: str) -> None:
    """Of a run without manifest: its lines are those that LINES was made of, where there is one. Raises ArtifactError.

    Lines beyond it are nobody's, and where lines of ``results`` are gone, all may end early: those episodes are run again.
    """
    kept = _readable_lines(folder / LINES)
    now = {name: list(_of_lines(folder / name)) if (folder / name).is_file() else [] for name in kept}
    whole = len(now.get(results, ())) >= len(kept.get(results, ()))
    for name, known in kept.items():
        changed = (number for number, (old, new) in enumerate(zip(known, now[name], strict=False), 1) if old != new)
        at, what = next(changed, 0), "was changed"
        if not at and whole and len(now[name]) < len(known):
            at, what = len(now[name]) + 1, "is missing"
        if at:
            raise ArtifactError(
                f"{folder / name}:{at} {what} after the run: {LINES} knows another one",
                "restore the file, or start a new run in another --out",
            )


def forget_manifest(folder: Path) -> None:
    """The run goes on: what vouched for its files does so no more. DONE goes first, for it names LINES."""
    (folder / DONE).unlink(missing_ok=True)
    (folder / LINES).unlink(missing_ok=True)


def damages(folder: Path) -> Iterator[Damage]:
    """Every file of the manifest that is missing or was changed. Raises ArtifactError where there is no manifest."""
    for name, digest in read_manifest(folder).items():
        path = folder / name
        if not path.is_file():
            yield Damage(path, "is missing")
        elif _hash(path) != digest:
            yield from _changed_lines(folder, name)


def strangers(folder: Path) -> list[str]:
    """Files of a finished run that its manifest does not name: nobody vouches for them."""
    known = read_manifest(folder)
    return [name for name in _names(folder) if name not in known]


def read_manifest(folder: Path) -> dict[str, str]:
    """Path -> sha256. Raises ArtifactError."""
    try:
        lines = (folder / DONE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise ArtifactError(f"{folder} is not finished: no {DONE}", f"apex resume {folder}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"cannot read {folder / DONE}: {error}", "run it again") from error
    if not lines:
        raise ArtifactError(f"{folder / DONE} names no file", "run it again")
    found = {}
    for number, line in enumerate(lines, 1):
        digest, blanks, name = line.partition("  ")
        if not blanks or Path(name).is_absolute() or ".." in Path(name).parts:
            raise ArtifactError(f"{folder / DONE}:{number} is no line of a manifest", "run it again")
        found[name] = digest
    return found


def _changed_lines(folder: Path, name: str) -> Iterator[Damage]:
    """What differs from the digests of lines; the file as a whole where there are none that can be relied on."""
    path = folder / name
    known = _kept_lines(folder).get(name)
    if known is None:
        yield Damage(path, "was changed after the run")
        return
    now = list(_of_lines(path))
    changed = [number for number, (old, new) in enumerate(zip(known, now, strict=False), 1) if old != new]
    for number in changed[:1] if len(known) != len(now) else changed:
        yield Damage(path, "was changed after the run", number)
    if len(known) != len(now):
        at = None if changed else min(len(known), len(now)) + 1
        yield Damage(path, f"has {len(now)} lines, not {len(known)} as after the run", at)
    elif not changed:
        yield Damage(path, "was changed after the run")


def _kept_lines(folder: Path) -> dict[str, list[str]]:
    """File -> digests of its lines; empty where the file of them is missing or was changed itself."""
    path = folder / LINES
    if not path.is_file() or _hash(path) != read_manifest(folder).get(LINES):
        return {}
    return _readable_lines(path)


def _readable_lines(path: Path) -> dict[str, list[str]]:
    """File -> digests of its lines, up to what an interrupted write left torn; empty where there is no such file."""
    found: dict[str, list[str]] = {}
    for line in path.read_bytes().split(b"\n")[:-1] if path.is_file() else ():
        try:
            row = json.loads(line)
            name, lines = Path(row["file"]), str(row["lines"])
        except (ValueError, KeyError, TypeError):
            break
        if not name.is_absolute() and ".." not in name.parts:
            found[row["file"]] = [lines[i : i + _DIGITS] for i in range(0, len(lines), _DIGITS)]
    return found


def _of_lines(path: Path) -> Iterator[str]:
    with path.open("rb") as lines:
        for line in lines:
            yield hashlib.sha256(line).hexdigest()[:_DIGITS]


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
