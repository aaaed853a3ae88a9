"""The log is told what happens in the order in which it happens, and its commit is the commit point."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from logbook import Logbook, cancelled_at
from rig import TOPOLOGIES, Rig, on_virtual_time, team

from apex_framework.errors import JournalError
from apex_framework.interfaces import AgentID, Roster
from apex_framework.runtime import SwitchEngine, SwitchRecord, SwitchResult
from apex_framework.runtime.gate import EpochGate
from apex_framework.runtime.routes import RouteTable
from apex_framework.testing.virtual_time import interleavings
from apex_framework.timeloop import run

RECORD = SwitchRecord("star", "chain", 1, team())  # type: ignore[arg-type]  # an epoch is an int
FAILURES = [OSError("disk full"), JournalError("the journal can no longer be written")]


def logged(log: Logbook, topology: str = "star", **engine: Any) -> Rig:
    return Rig(topology, engine={"log": log, **engine})


@on_virtual_time
async def test_intent_comes_first_and_commit_decides() -> None:
    log = Logbook()
    seen: list[Any] = []

    async def warm() -> None:
        seen.append(list(log.words))

    rig = logged(log, prepare=[warm])
    log.fails = {}
    assert (await rig.engine.switch_to("chain")).ok
    assert seen == [["intent"]]
    assert log.told == [("intent", RECORD, ""), ("commit", RECORD, "")]


@on_virtual_time
async def test_when_commit_is_called_the_old_epoch_is_still_in_force_and_nothing_of_it_waits() -> None:
    seen: list[Any] = []

    class Looks(Logbook):
        def commit(self, record: SwitchRecord) -> None:
            seen.append((rig.engine.active(), rig.router.epoch, rig.router.stats.waiting))
            super().commit(record)

    rig = logged(Looks())
    await rig.engine.switch_to("chain")
    assert seen == [(("star", 0), 0, 0)]


@on_virtual_time
async def test_one_commit_a_switch_and_none_for_an_aborted_one() -> None:
    log = Logbook()
    rig = logged(log, "flat")
    assert (await rig.engine.switch_to("chain")).ok
    rig.send("planner", "coder")
    assert not (await rig.engine.switch_to("star")).ok
    assert log.words == ["intent", "commit", "intent", "abort quiesce_deadline"]
    await rig.engine.switch_to("nowhere")
    assert len(log.told) == 4, "a topology that does not exist is no intent"


@pytest.mark.parametrize("failure", FAILURES, ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("when", ["intent", "commit"])
def test_f09_what_cannot_be_written_does_not_happen(when: str, failure: Exception) -> None:
    async def main() -> None:
        log = Logbook(fails={when: failure})
        rig = logged(log, "flat", deadline_ms=1000)
        rig.send("planner", "coder")
        switching = asyncio.ensure_future(rig.engine.switch_to("star"))
        await asyncio.sleep(0)
        rig.send("planner", "coder")
        assert rig.pass_on("coder") == "m1"
        result: SwitchResult = await switching
        assert (result.ok, result.reason, result.detail) == (False, "journal", str(failure))
        assert rig.engine.active() == ("flat", 0) and rig.pass_on("coder") == "m2"
        assert log.decided == ("", 0) and rig.engine.aborted == {"journal": 1}
        log.fails.clear()
        assert (await rig.engine.switch_to("star")).ok and log.decided == ("star", 1)

    run(main())


@on_virtual_time
async def test_an_abort_that_cannot_be_recorded_is_told_and_changes_nothing() -> None:
    rig = logged(Logbook(fails={"abort": OSError("disk full")}), "flat")
    rig.send("planner", "coder")
    result = await rig.engine.switch_to("star")
    assert (result.reason, result.detail) == (
        "quiesce_deadline",
        "messages wait for coder; abort not recorded: disk full",
    )
    assert rig.pass_on("coder") == "m1"


@on_virtual_time
async def test_after_a_commit_that_neither_succeeded_nor_was_refused_no_other_is_written() -> None:
    log = Logbook(fails={"commit": MemoryError()})
    rig = logged(log)
    with pytest.raises(MemoryError):
        await rig.engine.switch_to("chain")
    assert rig.engine.active() == ("star", 0)
    log.fails.clear()
    result = await rig.engine.switch_to("flat")
    assert (result.reason, result.detail) == ("journal", "how the commit of epoch 1 ended is unknown: MemoryError()")
    assert log.words == ["intent", "abort cancelled"]
    assert rig.send("planner", "coder") and rig.pass_on("coder") == "m1"


def outcome_of_cancelling(n: int, engine: type[SwitchEngine] = SwitchEngine, seed: int = 0) -> bool:
    """Cancel a switch under traffic at its n-th await; whether it got that far. Checks that one epoch is complete."""
    log = Logbook()

    async def warm() -> None:
        await asyncio.sleep(0.004)

    async def main() -> bool:
        rig = Rig("flat")
        it = engine(rig.router, TOPOLOGIES, clock=rig.clock, log=log, prepare=[warm, warm], deadline_ms=1000)
        rig.send("planner", "coder")
        rig.send("runner", "coder")

        async def consume() -> None:
            for _ in range(2):
                await asyncio.sleep(0.006)
                rig.pass_on("coder")

        async with asyncio.TaskGroup() as group:
            group.create_task(consume())
            reached = await cancelled_at(it.switch_to("star"), n)
            rig.send("planner", "coder")
        active = it.active()
        assert active == (log.decided if log.decided[1] else ("flat", 0)), "memory and log disagree"
        assert log.words[-1] in ("commit", "abort cancelled") and log.words.count("intent") == 1
        assert not it._gate.is_shut and rig.pass_on("coder") == "m3"
        assert rig.router.audit().acked == 3
        assert (await it.switch_to("chain")).ok
        return reached

    return run(main(), seed=seed, shuffle=bool(seed))


@pytest.mark.parametrize("seed", range(30))
def test_f22_cancelled_at_every_await_one_epoch_is_complete_and_the_log_knows_which(seed: int) -> None:
    n = 1
    while outcome_of_cancelling(n, seed=seed):
        n += 1
    assert n >= 4, "there are at least the start of the warm-ups, their end and the drain to be cancelled at"


class CommitsFirst(SwitchEngine):
    """A planted bug: the commit record is written before the old epoch has drained."""

    async def _quiesced(self) -> None:
        record = SwitchRecord("flat", "star", 1, self.router.table.roster)  # type: ignore[arg-type]  # an int
        assert self._log is not None
        self._log.commit(record)
        await super()._quiesced()


class ForgetsTheLog(SwitchEngine):
    """A planted bug: a cancelled switch is not told to the log."""

    def _undo(self, record: SwitchRecord, reason: Any, detail: str, logged: bool) -> str:
        return super()._undo(record, reason, detail, False)


@pytest.mark.parametrize("bug", [CommitsFirst, ForgetsTheLog])
def test_planted_bugs_of_the_commit_point_are_caught(bug: type[SwitchEngine]) -> None:
    with pytest.raises(AssertionError):
        for n in range(1, 10):
            outcome_of_cancelling(n, bug)


class _Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("released", [0, 1, 2, 3])
def test_f06_a_crash_during_the_re_enqueue_of_an_abort_leaves_the_old_epoch_in_the_log(released: int) -> None:
    """What the log says does not depend on how far the abort got: doing it again from there gives the same end."""

    class Crashes(EpochGate):
        def abort(self) -> None:
            waiting = list(self._router._next)
            del self._router._next[released:]
            super().abort()
            self._router._next = waiting[released:]
            raise _Crash

    async def main() -> None:
        log = Logbook()
        rig = logged(log, "flat")
        rig.send("planner", "coder")
        rig.engine._gate = Crashes(rig.router)
        switching = asyncio.ensure_future(rig.engine.switch_to("star"))
        await asyncio.sleep(0)
        for _ in range(3):
            rig.send("planner", "coder")
        with pytest.raises(_Crash):
            await switching
        assert log.decided == ("", 0) and "commit" not in log.words
        # The abort made again, where the memory survived: nothing twice, nothing lost, the order kept.
        EpochGate(rig.router).abort()
        EpochGate(rig.router).abort()
        assert [rig.pass_on("coder") for _ in range(4)] == ["m1", "m2", "m3", "m4"]
        assert rig.idle("coder")

    run(main())


@on_virtual_time
async def test_a_lane_plugin_that_fails_does_so_before_the_commit_point() -> None:
    log = Logbook()
    rig = logged(log)
    lanes = rig.router._lanes

    class Broken:
        name = "broken"

        def lane(self, receiver: str, capacity: int, rng: Any) -> Any:
            raise MemoryError("no lane")

    rig.router._lanes = Broken()
    result = await rig.engine.switch_to("chain")
    assert (result.reason, result.detail) == ("prepare_failed", "MemoryError: no lane")
    assert log.words == ["intent", "abort prepare_failed"]
    rig.router._lanes = lanes
    assert (await rig.engine.switch_to("chain")).ok


def test_I2_holds_and_log_and_memory_agree_under_random_traffic_and_cancellation() -> None:
    async def scenario(seed: int) -> tuple[int, int]:
        import random

        rng, log = random.Random(seed), Logbook()
        on_busy = rng.choice(("drain", "migrate"))
        rig = Rig("flat", engine={"log": log, "deadline_ms": rng.choice((5, 50)), "on_busy": on_busy})
        stop = False

        async def consume(agent: str) -> None:
            while (lease := await rig.router.lease(AgentID(agent))) is not None:
                old = [
                    e for box in rig.router._boxes.values() for e in box.pending() if e.topo_epoch < rig.router.epoch
                ]
                assert not old, "a message of an old epoch waits while the new one is served"
                await asyncio.sleep(rng.random() * 0.02)
                rig.router.ack(lease)

        async def traffic() -> None:
            while not stop:
                rig.send(rng.choice(rig.roster.ids), rng.choice(rig.roster.ids))
                await asyncio.sleep(rng.random() * 0.004)

        async with asyncio.TaskGroup() as group:
            for agent in rig.roster.ids:
                group.create_task(consume(agent))
            sending = group.create_task(traffic())
            committed = 0
            for _ in range(20):
                target = rng.choice(["star", "chain", "flat"])
                try:
                    async with asyncio.timeout(rng.choice((None, 0.001, 0.003))):
                        committed += (await rig.engine.switch_to(target)).ok
                except TimeoutError:
                    pass
                assert rig.engine.active()[1] == log.decided[1] == committed
                await asyncio.sleep(rng.random() * 0.01)
            stop = True
            await asyncio.wait([sending])
            rig.router.close_episode()
        rig.router.audit()
        return committed, rig.engine.aborted["cancelled"]

    outcomes = interleavings(scenario, range(40))
    assert sum(c for c, _ in outcomes) > 100 and sum(a for _, a in outcomes) > 20


def test_a_roster_travels_with_its_record() -> None:
    async def main() -> None:
        log = Logbook()
        rig = logged(log)
        smaller = Roster(rig.roster.members[:3], rig.roster.lead)
        assert (await rig.engine.switch_to("chain", smaller)).ok
        assert log.told[-1][1].roster == smaller

    run(main())


def test_the_table_is_ready_before_the_commit() -> None:
    async def main() -> None:
        rig = Rig("flat")
        rig.send("planner", "coder")
        rig.pass_on("coder")
        assert (await rig.engine.switch_to("chain")).ok
        table: RouteTable = rig.router.table
        assert (AgentID("planner"), "coder") in table.plans

    run(main())
