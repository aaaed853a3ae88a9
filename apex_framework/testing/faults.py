"""Planted bugs: epoch gates that break one guarantee each, to show that a checker would notice."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..runtime.gate import EpochGate
from ..runtime.routes import RouteTable
from ..runtime.switch import SwitchEngine


class ServesEarly(EpochGate):
    """Commits without waiting, and serves what is left of the old epoch after the new one's messages."""

    def drained(self, migrate: bool) -> bool:
        """Always."""
        return True

    def commit(self, table: RouteTable) -> tuple[int, dict[str, int]]:
        """Leaves old messages behind with their old epoch."""
        boxes = self._router._boxes
        left = {agent: list(box.pending()) for agent, box in boxes.items()}
        for agent, box in boxes.items():
            box.retries = []
            box.lane = self._router._mailbox(agent).lane
        result = super().commit(table)
        for agent, envelopes in left.items():
            for envelope in envelopes:
                boxes[agent].lane.restore(envelope)
            boxes[agent].wake()
        return result


class ReversesOnAbort(EpochGate):
    """Puts back what waited for the next epoch in the wrong order."""

    def abort(self) -> None:
        """Latest first."""
        self._router._next.reverse()
        super().abort()


class ForgetsOnAbort(EpochGate):
    """Loses a message that waited for the next epoch."""

    def abort(self) -> None:
        """All but the first."""
        del self._router._next[:1]
        super().abort()


PLANTED: Mapping[str, type[EpochGate]] = MappingProxyType(
    {"early": ServesEarly, "reordered": ReversesOnAbort, "lost": ForgetsOnAbort}
)
"""What a checker must report -> the bug that causes it."""


def plant(engine: SwitchEngine, bug: type[EpochGate]) -> None:
    """Put a planted bug into a switch engine."""
    engine._gate = bug(engine.router)
