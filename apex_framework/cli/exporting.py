"""Exporters of a run: made before anything is written, told everything, and none of them able to end the run."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ArtifactError, RunFolderError
from ..experiment.measured import RunMetrics
from ..interfaces import EpisodeResult, Exporter, OpensInRun, TakesMetrics

if TYPE_CHECKING:
    from ..events import Event
    from ..experiment.artifacts import RunFolder

FOLDER = "export"
"""Folder of a run that belongs to its exporters."""

_log = logging.getLogger(__name__)


class Exporting:
    """Hands events and metrics to exporters. One that raises is told once, and not asked again."""

    def __init__(self, exporters: Sequence[Exporter], folder: RunFolder, hist_buckets: Any = None) -> None:
        self._made = tuple(exporters)
        self._exporters = list(exporters)
        self._metrics = RunMetrics(hist_buckets)
        self._take_metrics = any(isinstance(exporter, TakesMetrics) for exporter in exporters)
        self._folder = folder

    def open(self) -> None:
        """Tell them where to write, and count what earlier parts of the run left. Raises RunFolderError."""
        writers = [exporter for exporter in self._exporters if isinstance(exporter, OpensInRun)]
        place = Path(self._folder.path) / FOLDER
        for exporter in writers:
            try:
                place.mkdir(exist_ok=True)
                exporter.open(str(place))
            except OSError as error:
                raise RunFolderError(f"exporter {exporter.name} cannot write to {place}: {error.strerror}") from error
        if self._take_metrics:
            for key, record in self._folder.records.items():
                path = self._folder.episode_path(key) / "metrics.jsonl"
                lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
                try:
                    rows = [json.loads(line) for line in lines]
                except ValueError as error:
                    raise ArtifactError(f"{path} is damaged: {error}", "start a new run") from error
                self._metrics.add(record, rows, str(path))

    def emit(self, event: Event) -> None:
        """Hand on an event."""
        self._each(lambda exporter: exporter.emit(event))

    def result(self, result: EpisodeResult) -> None:
        """Hand on the metrics as they are after this episode."""
        if self._take_metrics:
            self._metrics.add(result.record, result.metrics)
            samples = self._metrics.samples()
            self._each(lambda exporter: exporter.metrics(samples) if isinstance(exporter, TakesMetrics) else None)

    def close(self) -> None:
        """Close all of them, those that were left out as well."""
        self._exporters = list(self._made)
        self._each(lambda exporter: exporter.close())

    def _each(self, do: Callable[[Exporter], None]) -> None:
        for exporter in list(self._exporters):
            try:
                do(exporter)
            except Exception as error:  # noqa: BLE001 - a plugin's edge: exporters may fail, the run goes on
                self._exporters.remove(exporter)
                _log.warning("exporter %s failed and is left out from here on: %r", exporter.name, error)
