"""Exporter ``prometheus``: metrics in the text format, as a file for a node exporter, and on a loopback port."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from apex_framework.errors import ConfigError, RunFolderError
from apex_framework.events import Event
from apex_framework.interfaces import MetricSample

from .options import number, read_options

_log = logging.getLogger(__name__)
_EVERY_S: Final = 1.0
"""The file is written at most so often, and at the end."""


class Prometheus:
    """Options: ``textfile`` (by default ``metrics.prom`` in the run's ``export/``), ``port`` (none by default; served on
    127.0.0.1), ``format``: ``text`` (0.0.4) or ``openmetrics``.

    Names are those of the declarations. The format wants ``_total`` at the end of every counter's name; a counter that is
    named otherwise is shown as untyped rather than under another name. Events are not exported.
    """

    name = "prometheus"

    def __init__(self, spec: str = "") -> None:
        options = read_options(self.name, spec, {"textfile": "", "port": "", "format": "text"})
        if options["format"] not in ("text", "openmetrics"):
            raise ConfigError(
                f"exporter 'prometheus' knows no format {options['format']!r}", "known: text, openmetrics"
            )
        self._openmetrics = options["format"] == "openmetrics"
        self._path = Path(options["textfile"]) if options["textfile"] else None
        self._samples: tuple[MetricSample, ...] = ()
        self._written = 0.0
        self._failed = False
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        self._server: tuple[Any, threading.Thread] | None = None
        if options["port"]:
            port = int(number(self.name, "port", options["port"], 0, 65535))
            try:
                self._server = start_http_server(port, addr="127.0.0.1", registry=self._registry)
            except OSError as error:
                raise ConfigError(
                    f"exporter 'prometheus' cannot serve port {port}: {error.strerror}", "choose another port"
                ) from error

    @property
    def port(self) -> int | None:
        """The port that is served; None without one."""
        return int(self._server[0].server_port) if self._server is not None else None

    def open(self, folder: str) -> None:
        """Write there, unless an option names a file. Raises RunFolderError when that cannot be."""
        self._path = path = Path(self.files(folder)[0])
        temporary = _beside(path)
        try:
            temporary.touch()
            temporary.unlink()
        except OSError as error:
            cause = f"cannot write {path.parent}: {error.strerror}"
            raise RunFolderError(cause, "choose another textfile=") from error

    def files(self, folder: str) -> tuple[str, ...]:
        """What it writes when it is opened there."""
        return (str(self._path or Path(folder) / "metrics.prom"),)

    def emit(self, event: Event) -> None:
        """Nothing: what happened is in the metrics."""

    def metrics(self, samples: Sequence[MetricSample]) -> None:
        """Show these from now on."""
        self._samples = tuple(samples)
        if time.monotonic() - self._written >= _EVERY_S:
            self._write()

    def close(self) -> None:
        """Write the file once more, and end the server."""
        if self._samples:
            self._write()
        server, self._server = self._server, None
        if server is not None:
            server[0].shutdown()
            server[0].server_close()
            server[1].join()

    def collect(self) -> Iterable[Metric]:
        """What the client library asks a collector for."""
        return families(self._samples, self._openmetrics)

    def text(self) -> bytes:
        """The metrics in the format that was chosen."""
        made: bytes = (
            generate_openmetrics(self._registry)  # type: ignore[no-untyped-call]  # the library leaves its types out
            if self._openmetrics
            else generate_latest(self._registry)
        )
        return made

    def _write(self) -> None:
        if self._path is None or self._failed:
            return
        temporary = _beside(self._path)
        try:
            temporary.write_bytes(self.text())
            os.replace(temporary, self._path)
        except OSError as error:
            self._failed = True
            _log.warning("exporter prometheus stops writing %s: %s", self._path, error.strerror)
        self._written = time.monotonic()


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def families(samples: Iterable[MetricSample], openmetrics: bool = False) -> list[Metric]:
    """Samples in the client library's form, one family per name.

    OpenMetrics allows a histogram with negative buckets neither a sum nor a count: its last bucket is the count.
    """
    found: dict[str, Metric] = {}
    for sample in samples:
        counter = sample.kind == "counter" and sample.name.endswith("_total")
        kind = sample.kind if counter or sample.kind != "counter" else "unknown"
        family = found.get(sample.name)
        if family is None:
            name = sample.name.removesuffix("_total") if counter else sample.name
            family = found[sample.name] = Metric(name, sample.help, kind)
        labels = dict(sample.labels)
        if sample.kind != "histogram":
            family.add_sample(sample.name, labels, sample.value)
            continue
        seen = 0
        for bound, count in zip((*sample.bounds, None), sample.counts, strict=True):
            seen += count
            le = "+Inf" if bound is None else repr(float(bound))
            family.add_sample(f"{sample.name}_bucket", {**labels, "le": le}, seen)
        if not openmetrics or sample.bounds[0] >= 0:
            family.add_sample(f"{sample.name}_count", labels, seen)
            family.add_sample(f"{sample.name}_sum", labels, sample.value)
    return list(found.values())
