"""Exporter ``jsonl``: events as lines as they come in, and the latest metrics, with their bins, in a second file."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO

from apex_framework.errors import RunFolderError
from apex_framework.events import Event
from apex_framework.interfaces import MetricSample

from .options import read_options

_log = logging.getLogger(__name__)


class Jsonl:
    """Writes ``events.jsonl``, appended to, and ``metrics.jsonl``, replaced whole by every look at the metrics.

    Option ``folder``; by default the run's ``export/``. A disk that fails is told once, and ends the writing.
    """

    name = "jsonl"

    def __init__(self, spec: str = "") -> None:
        self._folder = read_options(self.name, spec, {"folder": ""})["folder"]
        self._file: IO[str] | None = None
        self._failed = False
        if self._folder:
            self.open(self._folder)

    def open(self, folder: str) -> None:
        """Write there, unless an option names another folder. Raises RunFolderError when that cannot be."""
        if self._file is None:
            target = Path(self._folder or folder)
            try:
                target.mkdir(parents=True, exist_ok=True)
                self._file = open(target / "events.jsonl", "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
            except OSError as error:
                raise RunFolderError(f"cannot write {target}: {error.strerror}", "choose another folder=") from error
            self._folder = str(target)

    def files(self, folder: str) -> tuple[str, ...]:
        """What it writes when it is opened there."""
        target = Path(self._folder or folder)
        return str(target / "events.jsonl"), str(target / "metrics.jsonl")

    def emit(self, event: Event) -> None:
        """One line: the event's type and its fields."""
        if self._file is None:
            return
        row = {"event": type(event).__name__, **asdict(event)}
        try:
            self._file.write(json.dumps(row, separators=(",", ":"), ensure_ascii=False, default=str) + "\n")
        except OSError as error:
            self._fail(error)

    def metrics(self, samples: Sequence[MetricSample]) -> None:
        """Replace ``metrics.jsonl``."""
        if self._file is None:
            return
        path = Path(self._folder) / "metrics.jsonl"
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(_row(sample), separators=(",", ":")) + "\n" for sample in samples)
            os.replace(temporary, path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            self._fail(error)

    def close(self) -> None:
        """Flush."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self._fail(error)

    def _fail(self, error: OSError) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # what it still holds cannot be written either
                file.close()
        if not self._failed:
            self._failed = True
            _log.warning("exporter jsonl stops: cannot write to %s: %s", self._folder, error.strerror)


def _row(sample: MetricSample) -> dict[str, object]:
    row: dict[str, object] = {"metric": sample.name, "kind": sample.kind, "unit": sample.unit}
    row["labels"] = dict(sample.labels)
    if sample.kind != "histogram":
        return {**row, "value": sample.value}
    bins = {"bounds": list(sample.bounds), "counts": list(sample.counts)}
    return {**row, "count": sample.count, "sum": sample.value, "min": sample.smallest, "max": sample.largest, **bins}
