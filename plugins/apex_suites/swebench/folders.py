"""Data in a folder: files by split, as a download leaves them, or the hub's own cache of a dataset."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from apex_framework.errors import UsageError

from .rows import Instance, read_instances

_FILE: Final = re.compile(r"(train|dev|test)(?![a-z]).*\.(?:parquet|jsonl?(?:\.gz|\.zst)?)")
_SHARD: Final = re.compile(r"-(\d{5})-of-(\d{5})\.")


def read_folder(folder: Path) -> tuple[Instance, ...]:
    """The instances of every split. Raises UsageError: no such files, a part that is missing, an id in two files."""
    seen: dict[str, Path] = {}
    found: list[Instance] = []
    for file in data_files(folder):
        for instance in read_instances(file):
            if instance.instance_id in seen:
                raise UsageError(
                    f"{file}: {instance.instance_id!r} is in {seen[instance.instance_id]}, too", "keep one of the files"
                )
            seen[instance.instance_id] = file
            found.append(instance)
    return tuple(found)


def data_files(folder: Path) -> tuple[Path, ...]:
    """Files named after a split, in order of names, in ``data`` of the folder or in itself. Raises UsageError.

    Of a cache that keeps snapshots it is the one that ``refs/main`` names, else the newest that has such files.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder", "--data DIR, or FILE, names the suite's tasks")
    for place in _places(folder):
        if files := _files(place):
            _check_parts(files)
            return files
    raise UsageError(
        f"{folder}: it holds no file of a split",
        "e.g. test-00000-of-00001.parquet or test.jsonl, or name the file itself",
    )


def is_whole(folder: Path) -> bool:
    """Whether every part of the split ``test`` is there."""
    try:
        return any(file.name.startswith("test") for file in data_files(folder))
    except UsageError:
        return False


def _places(folder: Path) -> list[Path]:
    if not (folder / "snapshots").is_dir():
        return [folder / "data", folder]
    snapshots = sorted((folder / "snapshots").iterdir(), key=lambda place: place.stat().st_mtime, reverse=True)
    try:
        main = (folder / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        main = ""
    snapshots.sort(key=lambda place: place.name != main)
    return [inner for place in snapshots for inner in (place / "data", place)]


def _files(place: Path) -> tuple[Path, ...]:
    if not place.is_dir():
        return ()
    return tuple(sorted(file for file in place.iterdir() if _FILE.fullmatch(file.name) and file.is_file()))


def _check_parts(files: tuple[Path, ...]) -> None:
    """A split in several files is whole when each is there that their names speak of."""
    parts: dict[str, tuple[set[int], int]] = {}
    for file in files:
        if match := _SHARD.search(file.name):
            have, _ = parts.setdefault(file.name[: match.start()], (set(), int(match[2])))
            have.add(int(match[1]))
    for split, (have, total) in parts.items():
        if have != set(range(total)):
            raise UsageError(
                f"{files[0].parent}: {len(have)} of {total} files of the split {split!r}", "is the download complete?"
            )
