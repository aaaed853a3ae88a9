"""Ways out for what happened: lines, Prometheus text, OpenTelemetry."""

from __future__ import annotations

from apex_framework.hookspecs import ApexSpec


class Exporters(ApexSpec):
    """The built-in exporters."""


plugin = Exporters()
