"""A journal whose machine stops at every one of its calls to the disk, with every disk that a stop may leave.

On the simulated disk, which forgets what was not synced: the un-synced part is kept, lost, kept up to each byte,
zeroed behind it, reordered, or torn. A process opens a journal, switches, aborts, and writes records of its own; then the
journal is opened again, twice. ``lost`` counts acknowledged records that are not there, ``phantom`` records that nobody
wrote and switches recovered that were never decided, ``unlike`` second openings that found something else than the first.
All three must be 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..interfaces import AgentID, Epoch, Member, Roster
from ..runtime.journal import COMMIT, Journal, JournalSwitchLog, recovered_switch
from ..runtime.switchlog import SwitchRecord
from ..testing.crashes import crashes
from ..testing.disk import SimulatedDisk

STEP = 7
"""Distance in bytes between two places at which an un-synced tail is cut."""
TOPOLOGIES = ("star", "chain", "flat")

Written = tuple[int, int]
"""Kind and epoch of a record."""


def run(args: Any = None) -> Iterator[dict[str, object]]:
    """Rows of bench ``crashes``. ``args.n`` is the number of switches in the story (6)."""
    story = _Story(int(getattr(args, "n", None) or 6))
    faults: Counter[str] = Counter({"lost": 0, "phantom": 0, "unlike": 0})
    points: Counter[str] = Counter()
    calls = 0
    for crash in crashes(story.tell, before=story.forget, step=STEP):
        points[crash.model.value] += 1
        calls = max(calls, crash.call)
        faults.update(story.judge(crash.disk))
    yield _row("calls to the disk at which it stopped", calls, "calls")
    for model, number in sorted(points.items()):
        yield _row(f"stopped and read again, {model}", number, "disks")
    for fault, number in faults.items():
        yield _row(fault, number, "violations")


class _Story:
    """What the process does, what it wrote, and how much of that was acknowledged to it."""

    def __init__(self, switches: int) -> None:
        self._switches = switches
        self._roster = Roster(tuple(Member(AgentID(f"a{i}"), "coder") for i in range(7)), AgentID("a0"))
        self.forget()

    def forget(self) -> None:
        self._written: list[Written] = []
        self._told = 0

    def tell(self, disk: SimulatedDisk) -> None:
        with Journal.open(disk.root / "journal", files=disk) as journal:
            log = JournalSwitchLog(journal)
            for epoch in range(1, self._switches + 1):
                target = TOPOLOGIES[epoch % 3]
                record = SwitchRecord(TOPOLOGIES[(epoch - 1) % 3], target, Epoch(epoch), self._roster)
                self._written.append((1, epoch))  # before it is written: a stop inside may leave it readable
                log.intent(record)
                if epoch % 3 == 0:
                    self._written.append((3, epoch))
                    log.abort(record, "quiesce_deadline")
                    continue
                self._written.append((2, epoch))
                log.commit(record)
                self._told = len(self._written)
                self._written.append((64, epoch))
                journal.append(64, epoch, {"text": "x" * 40})
        self._told = len(self._written)

    def judge(self, disk: SimulatedDisk) -> dict[str, int]:
        first, second = _read(disk), _read(disk)
        found = [(kind, epoch) for kind, epoch, _ in first]
        decided = {epoch for kind, epoch in self._written if kind == COMMIT}
        states = [epoch for _, _, epoch in first if epoch is not None]
        return {
            "lost": max(self._told - len(found), 0),
            "phantom": (found != self._written[: len(found)]) + sum(epoch not in decided for epoch in states),
            "unlike": first != second,
        }


def _read(disk: SimulatedDisk) -> list[tuple[int, int, int | None]]:
    """Kind and epoch of every record, and with the last one the epoch of the switch that is recovered."""
    with Journal.open(disk.root / "journal", files=disk) as journal:
        records = journal.records
    switch = recovered_switch(records)
    found: list[tuple[int, int, int | None]] = [(record.kind, record.epoch, None) for record in records]
    if switch is not None:
        found[-1] = (*found[-1][:2], int(switch.epoch))
    return found


def _row(metric: str, value: float, unit: str) -> dict[str, object]:
    row: dict[str, object] = {"bench": "crashes", "case": "every call to the disk", "contender": "apex"}
    return row | {"metric": metric, "value": value, "unit": unit}
