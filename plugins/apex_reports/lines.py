"""Lines of a run's files, one at a time: a run of ten thousand episodes has a hundred thousand decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from apex_framework.analysis import episode_folder, iterate_lines
from apex_framework.errors import ArtifactError

FORMAT = 1
"""Version of run folders that is understood."""

Key = tuple[str, str, int]
"""Arm, task, seed."""


@dataclass(frozen=True, slots=True)
class Line:
    """An object of a JSONL file; whatever is asked of it that it is not is an ArtifactError with file and line."""

    place: str
    row: Mapping[str, Any]

    def number(self, name: str, default: float = 0.0) -> float:
        """A finite number; the default where there is none."""
        value = self.row.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise self.wrong(name, "no number")
        return float(value)

    def whole(self, name: str, default: int = 0) -> int:
        """A whole number."""
        value = self.row.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(name, "no whole number")
        return value

    def text(self, name: str) -> str:
        """A text; empty where there is none."""
        value = self.row.get(name, "")
        if not isinstance(value, str):
            raise self.wrong(name, "no text")
        return value

    def numbers(self, name: str) -> dict[str, float]:
        """A table of numbers by name."""
        value = self.row.get(name) or {}
        if not isinstance(value, dict):
            raise self.wrong(name, "no table")
        if all(type(number) is float and isfinite(number) for number in value.values()):
            return value
        inner = Line(f"{self.place}, {name}", value)
        return {key: inner.number(key) for key in value}

    def vector(self, name: str) -> tuple[float, ...]:
        """A list of numbers."""
        value = self.row.get(name) or []
        if not isinstance(value, list):
            raise self.wrong(name, "no list")
        if all(type(number) is float and isfinite(number) for number in value):
            return tuple(value)
        inner = Line(f"{self.place}, {name}", {str(i): v for i, v in enumerate(value)})
        return tuple(inner.number(key) for key in inner.row)

    def key(self) -> Key:
        """Whose line it is."""
        self.needs("arm", "task_id", "seed")
        return self.text("arm"), self.text("task_id"), self.whole("seed")

    def needs(self, *names: str) -> None:
        """Raises ArtifactError where one of the columns is not there."""
        for name in names:
            if name not in self.row:
                raise self.wrong(name, "missing")

    def wrong(self, name: str, what: str) -> ArtifactError:
        """An error about one column."""
        return ArtifactError(f"{self.place}: {name} is {what}", "restore the file or run again")


def lines(path: Path) -> Iterator[Line]:
    """Lines of a file; none where there is no file. A last line without a line end was torn by an interruption: left out.

    Raises ArtifactError.
    """
    for count, row in enumerate(iterate_lines(path, missing_ok=True), 1):
        yield Line(f"{path}, line {count}", row)


def run_facts(path: Path) -> dict[str, Any]:
    """run.json. Raises ArtifactError, also for a folder of another version."""
    try:
        data = json.loads((path / "run.json").read_bytes())
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path} is no run folder: {error}", "name a folder that apex run made") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("plan"), dict):
        raise ArtifactError(f"{path / 'run.json'} is of another version", "use the apex that made it")
    return data


def trace_path(run: Path, key: Key) -> Path:
    """Where an episode's messages are."""
    return episode_folder(run, key) / "trace.jsonl"
