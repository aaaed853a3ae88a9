"""What the switch engine writes down: the contract between it and whatever keeps a journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..interfaces.message import Epoch
from ..interfaces.topology import Roster


@dataclass(frozen=True, slots=True)
class SwitchRecord:
    """One switch on its way from ``origin`` to ``target``; ``epoch`` is the one that it would begin."""

    origin: str
    target: str
    epoch: Epoch
    roster: Roster


class SwitchLog(Protocol):
    """Keeps switches. Every method is synchronous; an OSError or JournalError aborts the switch.

    ``intent`` comes before PREPARE and need not be durable: a switch without a COMMIT record never
    happened. ``commit`` is the commit point: when it returns the record is on disk, and recovery rolls
    forward; when it raises, the record must never be readable. ``abort`` tells how a switch ended.
    """

    def intent(self, record: SwitchRecord) -> None:
        """A switch begins."""
        ...

    def commit(self, record: SwitchRecord) -> None:
        """The new epoch is in force once this returns."""
        ...

    def abort(self, record: SwitchRecord, reason: str) -> None:
        """The old epoch stays in force."""
        ...
