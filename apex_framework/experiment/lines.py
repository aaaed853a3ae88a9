"""JSON lines on disk: one object per line, a torn last line is nobody's, damage elsewhere is named."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import ArtifactError
from .plan import Key


def to_line(row: Mapping[str, Any]) -> bytes:
    """One line, newline included. Raises TypeError, ValueError or RecursionError for what JSON cannot say."""
    try:
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    except (
        UnicodeEncodeError
    ):  # half a surrogate pair, as names of files have it: UTF-8 cannot say it, JSON's escapes can
        return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def misfit(value: Any, place: str) -> str:
    """The place of the first part of a value that is of no type that JSON has; empty where there is none."""
    if isinstance(value, dict):
        if not all(isinstance(key, str | int | float | None) for key in value):
            return place
        parts = [(part, f"{place}.{key}") for key, part in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(part, f"{place}[{index}]") for index, part in enumerate(value)]
    else:
        return "" if isinstance(value, str | int | float | None) else place
    return next(filter(None, (misfit(part, where) for part, where in parts)), "")


def cut_torn_tail(path: Path) -> int:
    """Remove what follows the last newline, as an interrupted write leaves it; returns the number of bytes removed."""
    if not path.exists():
        return 0
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if torn := len(data) - whole:
        with open(path, "rb+") as file:
            file.truncate(whole)
            os.fsync(file.fileno())
    return torn


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All of ``iterate_rows``, without the lines. Raises ArtifactError."""
    return [row for _, row in iterate_rows(path)]


def iterate_rows(path: Path, *, missing_ok: bool = True) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Line and object, one after the other: a run's files are larger than what a run may hold. None if there is no file.

    A last line without a newline was torn by an interruption, and is left out. Raises ArtifactError, with the line's
    number, for what is damaged; and for a missing file that may not be missing.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield line, _object(path, number, line)
    except OSError as error:
        if missing_ok and isinstance(error, FileNotFoundError):
            return
        raise ArtifactError(f"cannot read {path}: {error.strerror}", "name a file that apex run wrote") from error


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}, line {number}: not JSON", "restore the file or start a new run") from error
    if not isinstance(row, dict):
        raise ArtifactError(f"{path}, line {number}: not an object", "restore the file or start a new run")
    return row


def key_of(row: Mapping[str, Any], place: str = "a row") -> Key:
    """The episode that a row belongs to. Raises ArtifactError, with the place."""
    try:
        return str(row["arm"]), str(row["task_id"]), int(row["seed"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ArtifactError(f"{place} names no episode: {error}", "restore the file or start a new run") from error
