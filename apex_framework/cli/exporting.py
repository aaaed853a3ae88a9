"""Exporters of a run: made before anything is written, told everything, and none of them able to end the run."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, RunFolderError
from ..experiment.lines import key_of, read_rows
from ..experiment.measured import RunMetrics
from ..interfaces import EpisodeResult, Exporter, OpensInRun, TakesMetrics, WritesFiles

if TYPE_CHECKING:
    from ..events import Event
    from ..experiment.artifacts import RunFolder

FOLDER = "export"
"""Folder of a run that belongs to its exporters."""

_log = logging.getLogger(__name__)


class Exporting:
    """Hands events and metrics to exporters. One that raises is told once, and not asked again."""

    def __init__(self, folder: RunFolder, hist_buckets: Any = None) -> None:
        self._made: list[Exporter] = []
        self._exporters: list[Exporter] = []
        self._metrics = RunMetrics(hist_buckets)
        self._take_metrics = False
        self._folder = folder
        self._made_place = False

    def add(self, exporter: Exporter) -> None:
        """One more, which from here on is closed with the others."""
        self._made.append(exporter)
        self._exporters.append(exporter)
        self._take_metrics |= isinstance(exporter, TakesMetrics)

    def open(self) -> None:
        """Tell them where to write, and count what earlier parts of the run left.

        Raises ConfigError for two that write one file, RunFolderError, ArtifactError.
        """
        writers = [exporter for exporter in self._exporters if isinstance(exporter, OpensInRun)]
        place = Path(self._folder.path) / FOLDER
        self._refuse_shared_files(place)
        for exporter in writers:
            try:
                if not place.exists():
                    place.mkdir()
                    self._made_place = True
                exporter.open(str(place))
            except OSError as error:
                cause = f"exporter {exporter.name} cannot write {error.filename or place}: {error.strerror}"
                raise RunFolderError(cause, "choose another folder for it, or leave it out") from error
        if self._take_metrics:
            for record in self._folder.lines():
                path = self._folder.episode_path(key_of(record)) / "metrics.jsonl"
                self._metrics.add(record, read_rows(path), str(path))

    def _refuse_shared_files(self, place: Path) -> None:
        taken: dict[Path, str] = {}
        for exporter in self._exporters:
            for file in exporter.files(str(place)) if isinstance(exporter, WritesFiles) else ():
                path = Path(file).resolve()
                if path in taken:
                    raise ConfigError(
                        f"exporters {taken[path]} and {exporter.name} both write {file}",
                        "leave one out, or give it another folder= or file",
                    )
                taken[path] = exporter.name

    def emit(self, event: Event) -> None:
        """Hand on an event."""
        self._each(lambda exporter: exporter.emit(event))

    def result(self, result: EpisodeResult) -> None:
        """Hand on the metrics as they are after this episode."""
        if self._take_metrics:
            self._metrics.add(result.record, result.metrics)
            samples = self._metrics.samples()
            self._each(lambda exporter: exporter.metrics(samples) if isinstance(exporter, TakesMetrics) else None)

    def discard(self) -> None:
        """Close all of them, for the run is given up, and remove their folder if it was made for them."""
        self.close()
        if self._made_place:
            shutil.rmtree(Path(self._folder.path) / FOLDER, ignore_errors=True)

    def close(self) -> None:
        """Close all of them once, those that were left out as well."""
        self._exporters, self._made = self._made, []
        self._each(lambda exporter: exporter.close())

    def _each(self, do: Callable[[Exporter], None]) -> None:
        for exporter in list(self._exporters):
            try:
                do(exporter)
            except Exception as error:  # noqa: BLE001 - a plugin's edge: exporters may fail, the run goes on
                self._exporters.remove(exporter)
                _log.warning("exporter %s failed and is left out from here on: %r", exporter.name, error)
