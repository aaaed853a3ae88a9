"""An episode's metrics: events counted as they happen, the router seen after every step, the rest read at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..budget import Ledger
from ..runtime import Router
from ..telemetry.attribution import Attribution, decision_rows, switch_rows
from ..telemetry.buckets import Buckets
from ..telemetry.meters import EventMeter, RouterMeter, poll_health, poll_ledger
from ..telemetry.registry import Registry, to_row

EVERY = 4
"""Every so many messages one is attributed: chosen by id, the same ones for the same seed."""


class EpisodeTelemetry:
    """The registry of one episode and what fills it."""

    def __init__(self, buckets: Buckets) -> None:
        self.registry = Registry(buckets=buckets)
        self.meter = EventMeter(self.registry)
        self._router: RouterMeter | None = None

    def watch(self, router: Router) -> None:
        """This is the router to look at."""
        self._router = RouterMeter(self.registry, router)

    def poll(self) -> None:
        """A step is over."""
        if self._router is not None:
            self._router.poll()

    def finish(self, ledger: Ledger, elapsed_ms: float, health_s: Mapping[str, float] | None = None) -> None:
        """The session has ended after so much episode time; ``health_s`` are the ages of a HealthCache."""
        poll_health(self.registry, health_s or {})
        self.registry.histogram("episode_ms").observe(elapsed_ms)
        if self._router is not None:
            self._router.finish()
        poll_ledger(self.registry, ledger)

    def attribute(
        self,
        trace: Iterable[Mapping[str, Any]],
        decisions: Iterable[Mapping[str, Any]],
        switches: Iterable[Mapping[str, Any]],
    ) -> tuple[dict[str, Any], ...]:
        """Lines that say where time went; those of messages are measured too."""
        hops = Attribution(EVERY)
        hops.read(trace)
        measure_hops(self.registry, hops.rows)
        return (*hops.rows, *decision_rows(decisions), *switch_rows(switches))

    def rows(self) -> tuple[dict[str, Any], ...]:
        """The metrics as lines, without quantiles: those are made when episodes are put together."""
        return tuple(to_row(sample, quantiles=False) for sample in self.registry.snapshot())


def measure_hops(registry: Registry, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add lines of messages to the metrics of their parts."""
    for row in rows:
        registry.histogram("message_ms").observe(row["total_ms"])
        for part, took in row["parts_ms"].items():
            registry.histogram("message_part_ms", part=part).observe(took)
