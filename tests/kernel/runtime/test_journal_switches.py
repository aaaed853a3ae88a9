"""A switch whose process dies: which epoch the next one finds. The COMMIT record on disk is the one commit point."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest
from rig import Rig, team

from apex_framework.errors import JournalError
from apex_framework.interfaces import AgentID, Epoch, Member, Roster
from apex_framework.runtime import SwitchResult
from apex_framework.runtime.journal import ABORT, COMMIT, INTENT, Journal, JournalSwitchLog, Record, recovered_switch
from apex_framework.testing.disk import Crash, SimulatedCrash, SimulatedDisk
from apex_framework.timeloop import run

OLD = (1, "chain")
NEW = (2, "flat")
Outlook = Callable[[SimulatedDisk], None]


def opened(disk: SimulatedDisk) -> Journal:
    return Journal.open(disk.root / "journal", files=disk)


def found(disk: SimulatedDisk) -> tuple[int, str] | None:
    """Epoch and topology that the next process begins with."""
    with opened(disk) as journal:
        state = recovered_switch(journal.records)
    return None if state is None else (state.epoch, state.topology)


def switch_and_stop(disk: SimulatedDisk, call: int) -> None:
    """Switch to the old epoch; then, on the way to the new one, the machine stops at this call of the journal.

    A switch makes three: it writes INTENT, writes COMMIT, and syncs.
    """

    async def main() -> None:
        with opened(disk) as journal:
            rig = Rig(engine={"log": JournalSwitchLog(journal)})
            assert (await rig.engine.switch_to("chain")).ok
            disk.stop_at(call)
            await rig.engine.switch_to("flat")

    with pytest.raises(SimulatedCrash):
        run(main())


def outcomes(disk: SimulatedDisk) -> set[tuple[int, str] | None]:
    """What may be found, over everything that the stopped machine may have left."""
    models = [(Crash.KILLED, 0, 0), (Crash.LOST, 0, 0)]
    models += [(model, keep, 0) for model in (Crash.PREFIX, Crash.ZEROED) for keep in range(disk.unsynced)]
    models += [(model, 0, seed) for model in (Crash.REORDERED, Crash.TORN) for seed in range(50)]
    return {found(disk.crash(model, keep=keep, seed=seed)) for model, keep, seed in models}


def test_f01_killed_before_the_intent_is_written_the_old_epoch_stays() -> None:
    disk = SimulatedDisk()
    switch_and_stop(disk, 1)
    assert outcomes(disk) == {OLD}


def test_f02_killed_with_the_intent_written_and_not_synced_the_old_epoch_stays_and_the_tail_is_cut() -> None:
    disk = SimulatedDisk()
    switch_and_stop(disk, 2)
    assert outcomes(disk) == {OLD}
    with opened(disk.crash(Crash.PREFIX, keep=40)) as journal:
        assert journal.cut == 40
        assert [r.kind for r in journal.records] == [INTENT, COMMIT]


def test_f03_killed_while_the_lanes_drain_the_old_epoch_stays() -> None:
    disk = SimulatedDisk()

    async def main() -> None:
        with opened(disk) as journal:
            rig = Rig(engine={"log": JournalSwitchLog(journal), "deadline_ms": 1000.0})
            assert (await rig.engine.switch_to("chain")).ok
            rig.send("planner", "coder")
            switching = asyncio.create_task(rig.engine.switch_to("flat"))
            await asyncio.sleep(0.5)
            assert outcomes(disk) == {OLD}
            switching.cancel()

    run(main())


def test_f04_killed_with_commit_written_and_not_synced_the_new_epoch_begins_only_if_the_record_is_whole() -> None:
    disk = SimulatedDisk()
    switch_and_stop(disk, 3)
    assert outcomes(disk) == {OLD, NEW}
    assert found(disk.crash(Crash.KILLED)) == NEW
    for keep in range(disk.unsynced):
        left = disk.crash(Crash.PREFIX, keep=keep)
        assert found(left) == OLD
        assert found(left.crash(Crash.LOST)) == OLD


def test_f05_killed_with_commit_synced_and_nobody_told_the_new_epoch_begins() -> None:
    disk = SimulatedDisk()
    switch_and_stop(disk, 4)
    assert outcomes(disk) == {NEW}


@pytest.mark.parametrize("call", [1, 2, 3])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_f09_a_failing_journal_aborts_the_switch_and_no_commit_is_found(call: int, error: int) -> None:
    disk = SimulatedDisk()

    async def main() -> SwitchResult:
        with opened(disk) as journal:
            rig = Rig(engine={"log": JournalSwitchLog(journal)})
            assert (await rig.engine.switch_to("chain")).ok
            disk.fail_at(call, error)
            result = await rig.engine.switch_to("flat")
            assert rig.engine.active() == ("chain", 1)
            assert not (await rig.engine.switch_to("star")).ok  # it is over with this journal
            return result

    result = run(main())
    assert not result.ok and "cannot write to /simulated/journal" in result.detail
    assert outcomes(disk) == {OLD}


def test_a_switch_costs_one_sync() -> None:
    disk = SimulatedDisk()

    async def main() -> None:
        with opened(disk) as journal:
            rig = Rig(engine={"log": JournalSwitchLog(journal)})
            before = len(disk.trace)
            assert (await rig.engine.switch_to("chain")).ok
            assert disk.trace[before:] == ["write", "write", "sync"]

    run(main())


def test_the_roster_of_the_last_commit_is_found_and_aborted_switches_are_told() -> None:
    disk = SimulatedDisk()
    changed = Roster((Member(AgentID("x"), "planner"), Member(AgentID("y"), "coder")), AgentID("y"))

    async def main() -> None:
        with opened(disk) as journal:
            rig = Rig(engine={"log": JournalSwitchLog(journal), "deadline_ms": 5.0})
            assert (await rig.engine.switch_to("chain", changed)).ok
            rig.send("x", "y")
            assert not (await rig.engine.switch_to("flat", team())).ok

    run(main())
    with opened(disk) as journal:
        assert [r.kind for r in journal.records] == [INTENT, COMMIT, INTENT, ABORT]
        assert journal.records[-1].payload["reason"] == "quiesce_deadline"
        state = recovered_switch(journal.records)
    assert state is not None
    assert (state.epoch, state.topology, state.roster) == (Epoch(1), "chain", changed)


def test_without_a_commit_there_is_no_state_and_a_foreign_commit_is_an_error() -> None:
    assert recovered_switch([Record(INTENT, 1, 1, {})]) is None
    with pytest.raises(JournalError, match="record 3 is no COMMIT of a switch"):
        recovered_switch([Record(COMMIT, 1, 3, {"target": "star"})])
