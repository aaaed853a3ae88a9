"""Exporter: carries events and metrics out of a run."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..events import Event


@runtime_checkable
class Exporter(Protocol):
    """Takes what happened; must not block and must not raise for want of a listener."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    def emit(self, event: Event) -> None:
        """Take one event."""
        ...

    def close(self) -> None:
        """Flush and release; idempotent."""
        ...
