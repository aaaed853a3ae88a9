"""Ways out for what happened: lines, Prometheus text, OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import Exporter


def _jsonl(**options: Any) -> Exporter:
    from .jsonl import Jsonl

    return Jsonl(**options)


def _prometheus(**options: Any) -> Exporter:
    from .prometheus import Prometheus

    return Prometheus(**options)


def _otlp(**options: Any) -> Exporter:
    from .otlp import Otlp

    return Otlp(**options)


class Exporters(ApexSpec):
    """The built-in exporters."""

    @hookimpl
    def apex_exporters(self, add: Add[Exporter]) -> None:
        add("jsonl", _jsonl, summary="events and metrics as lines in the run folder")
        add(
            "prometheus",
            _prometheus,
            summary="metrics as Prometheus text: a file, a loopback port",
            requires="telemetry",
        )
        add(
            "otlp", _otlp, summary="metrics and episodes (as spans) to an OpenTelemetry collector", requires="telemetry"
        )


plugin = Exporters()
