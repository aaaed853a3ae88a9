"""JSON lines on disk: one object per line, a torn last line is cut, damage elsewhere is named."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import ArtifactError
from .plan import Key


def to_line(row: Mapping[str, Any]) -> bytes:
    """One line, newline included."""
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


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
    """All objects of a file; none if there is no file. Raises ArtifactError with the line's number."""
    return [row for _, row in iterate_rows(path)]


def iterate_rows(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Line and object, one after the other: a run's files are larger than what a run may hold. Raises ArtifactError."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ArtifactError(
                    f"{path}, line {number}: not JSON ({error})", "restore the file or start a new run"
                ) from error
            if not isinstance(row, dict):
                raise ArtifactError(f"{path}, line {number}: not a JSON object", "restore the file or start a new run")
            yield line, row


def key_of(row: Mapping[str, Any]) -> Key:
    """The episode that a row belongs to. Raises ArtifactError."""
    try:
        return str(row["arm"]), str(row["task_id"]), int(row["seed"])
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"a row names no episode: {error}", "restore the file or start a new run") from error
