"""Stopped at any call to the disk, switches of a real engine are recovered as they were told, or one further."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from rig import TOPOLOGIES, Rig

from apex_framework.interfaces import AgentID
from apex_framework.runtime import SwitchEngine, SwitchRecord
from apex_framework.runtime.journal import Journal, JournalSwitchLog, recovered_switch
from apex_framework.testing.crashes import crashes
from apex_framework.testing.disk import Crash, SimulatedDisk
from apex_framework.timeloop import run

STEPS = [("chain", ""), ("star", "backlog"), ("flat", "cancel"), ("star", ""), ("nowhere", ""), ("flat", "")]
"""Targets, and what stands in their way."""


class Told(list[tuple[str, int]]):
    """Every topology and epoch that was in force as far as the program knows; ``trying`` may have been decided."""

    trying: tuple[str, int] | None = None


def switches(disk: SimulatedDisk, told: Told, log: type[JournalSwitchLog] = JournalSwitchLog) -> None:
    """Committed, aborted and cancelled switches, each written down."""

    async def main() -> None:
        with Journal.open(disk.root / "switches", files=disk) as journal:
            rig = Rig("flat")
            engine = SwitchEngine(rig.router, TOPOLOGIES, clock=rig.clock, log=log(journal), deadline_ms=20)
            for target, obstacle in STEPS:
                told.trying = (target, engine.active()[1] + 1)
                if obstacle:
                    rig.send("planner", "coder")
                switching = asyncio.ensure_future(engine.switch_to(target))
                if obstacle:
                    await asyncio.sleep(0.001)
                    rig.send("planner", "coder")
                    if obstacle == "cancel":
                        switching.cancel()
                await asyncio.wait([switching])
                if not switching.cancelled():
                    switching.result()
                told.trying = None
                told.append(engine.active())
                while (lease := rig.router.try_lease(AgentID("coder"))) is not None:
                    rig.router.ack(lease)
            assert [name for name, _ in told] == ["chain", "chain", "chain", "star", "star", "flat"]

    run(main())


def check(log: type[JournalSwitchLog]) -> int:
    """Crash everywhere and compare; how many disks were looked at."""
    told, looked = Told(), 0
    for crash in crashes(lambda disk: switches(disk, told, log), before=told.clear, step=40, draws=3):
        looked += 1
        with Journal.open(crash.disk.root / "switches", files=crash.disk) as journal:
            state = recovered_switch(journal.records)
        found = (state.topology, state.epoch) if state else ("flat", 0)
        last = told[-1] if told else ("flat", 0)
        # Decided and nobody told: the COMMIT record was on disk, and the epoch begins.
        assert found in (last, told.trying), (crash, found, last, told.trying)
        if crash.model is Crash.KILLED and told.trying is None:
            assert found == last, crash
    return looked


def test_f01_f02_f03_f04_f05_f06_what_is_recovered_is_what_was_told_or_was_just_decided() -> None:
    assert check(JournalSwitchLog) > 200


class NeverSyncs(JournalSwitchLog):
    """A planted bug: the switch is told before its record is on disk."""

    def commit(self, record: SwitchRecord) -> None:
        self._journal.append(2, record.epoch, _form(record))


class CommitsAtIntent(JournalSwitchLog):
    """A planted bug: the commit record is written when the switch begins."""

    def intent(self, record: SwitchRecord) -> None:
        super().commit(record)

    def commit(self, record: SwitchRecord) -> None:
        pass


def _form(record: SwitchRecord) -> dict[str, Any]:
    members = [{"id": m.id, "role": m.role} for m in record.roster.members]
    return {
        "origin": record.origin,
        "target": record.target,
        "roster": {"members": members, "lead": record.roster.lead},
    }


@pytest.mark.parametrize("bug", [NeverSyncs, CommitsAtIntent])
def test_planted_bugs_of_the_log_are_caught(bug: type[JournalSwitchLog]) -> None:
    with pytest.raises(AssertionError):
        check(bug)
