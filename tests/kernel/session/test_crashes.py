"""A durable session stopped at every one of its calls to the disk, with every disk that may be left, and gone on with."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from durable_office import Act, DurableOffice, World
from lives import WORLDS, Life, bold, busy, life, unjustified, violations

from apex_framework.errors import JournalError
from apex_framework.session import DurableLog, Step
from apex_framework.session.durable_desk import DurableDesk
from apex_framework.session.records import Kind
from apex_framework.session.state import State
from apex_framework.testing.disk import Crash, SimulatedCrash, SimulatedDisk

BUSY: Mapping[str, Act] = dict.fromkeys("abcd", busy)
BOLD: Mapping[str, Act] = dict.fromkeys("abc", bold)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Hundreds of crashes are told in the log; nobody wants to read that."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def plain(acts: Mapping[str, Act], **office: Any) -> tuple[Life, World, SimulatedDisk]:
    """The session without a crash."""
    disk, world = SimulatedDisk(), World()
    WORLDS[:] = [world]
    return life(disk, world, acts, **office), world, disk


@dataclass(frozen=True)
class Stop:
    """A crash: the call to the disk that did not happen any more, what became of what was not synced, and the rest."""

    call: int
    model: Crash
    seed: int
    disk: SimulatedDisk = field(repr=False)
    world: World = field(repr=False)


def stops(
    acts: Mapping[str, Act],
    *,
    every: int = 1,
    begin: int = 1,
    most: int = 10**6,
    disk: SimulatedDisk | None = None,
    world: World | None = None,
    **office: Any,
) -> Iterator[Stop]:
    """A life on this disk, stopped at every so-many-th of its calls, with each kind of disk that may be left."""
    for call in range(begin, most, every):
        here = copy.deepcopy(disk) if disk is not None else SimulatedDisk()
        around = copy.deepcopy(world) if world is not None else World()
        WORLDS[:] = [around]
        here.stop_at(call)
        try:
            life(here, around, acts, **office)
            over = True
        except SimulatedCrash:
            over = False
        for model in Crash if here.unsynced else (Crash.KILLED,):
            keep = here.unsynced * 2 // 3
            yield Stop(call, model, call, here.crash(model, keep=keep, seed=call), copy.deepcopy(around))
        if over:
            return


def survived(acts: Mapping[str, Act], *, judge: Callable[[Life, World], list[str]], **crashing: Any) -> int:
    """Go on after every crash; how many there were. AssertionError with the first one that shows."""
    count = 0
    office = {k: v for k, v in crashing.items() if k not in ("every", "begin", "most")}
    for stop in stops(acts, **crashing):
        WORLDS[:] = [stop.world]
        after = life(stop.disk, stop.world, acts, **office)
        assert (found := judge(after, stop.world)) == [], f"{stop}: {found}"
        count += 1
    return count


def same_as(before: tuple[Life, World, SimulatedDisk]) -> Callable[[Life, World], list[str]]:
    return lambda after, world: violations(before[0], after, before[1], world)


def test_a_session_of_fifty_steps_crashed_now_and_then_ends_as_if_it_never_was() -> None:
    before = plain(BUSY)
    assert before[0][0].steps >= 50 and before[2].calls > 300
    assert survived(BUSY, judge=same_as(before), every=29) > 40


@pytest.mark.slow
@pytest.mark.parametrize("begin", [1, *(pytest.param(n, marks=pytest.mark.rest) for n in (2, 3, 4))])
def test_a_session_of_fifty_steps_crashed_at_every_call_ends_as_if_it_never_was(begin: int) -> None:
    assert survived(BUSY, judge=same_as(plain(BUSY)), every=4, begin=begin) > 300


@pytest.mark.parametrize("topology", ["star", "chain"])
def test_relays_and_rests_of_an_audience_survive_too(topology: str) -> None:
    before = plain(BUSY, topology=topology)
    assert survived(BUSY, judge=same_as(before), every=97, topology=topology) > 15


@pytest.mark.parametrize("seed", [1, 2])
def test_any_interleaving_survives(seed: int) -> None:
    before = plain(BUSY, seed=seed)
    assert survived(BUSY, judge=same_as(before), every=97, seed=seed) > 15


def test_what_cannot_be_repeated_is_not_and_what_is_in_doubt_is_told() -> None:
    doubts = 0
    for stop in stops(BOLD, every=3):
        WORLDS[:] = [stop.world]
        after = life(stop.disk, stop.world, BOLD)
        assert unjustified(after, stop.world) == [], stop
        told = after[1].log.in_doubt
        doubts += len(told)
        assert len(told) == sum("InDoubt" in fault for fault in after[0].faults)
        assert all(doubt.tool == "sink.fire" and doubt.arguments["text"] for doubt in told)
    assert doubts > 10


@pytest.mark.slow
def test_crashes_of_the_recovery_itself_change_nothing() -> None:
    before, points = plain(BUSY), 0
    hard = (Crash.LOST, Crash.TORN)
    for first in stops(BUSY, every=131, begin=90):
        if first.model not in hard:
            continue
        for second in stops(BUSY, every=3, most=26, disk=first.disk, world=first.world):
            if second.model not in hard:
                continue
            for third in stops(BUSY, every=7, begin=second.call % 7 + 1, most=15, disk=second.disk, world=second.world):
                if third.model in hard:
                    after = life(third.disk, third.world, BUSY)
                    assert violations(before[0], after, before[1], third.world) == [], (first, second, third)
                    points += 1
    assert points > 60


def switching(office: DurableOffice) -> Callable[[Step], Any]:
    async def on_step(step: Step) -> None:
        office.coordinator.step()
        if step.number % 7 == 0 and not step.final:
            await office.coordinator.request(("star", "chain", "flat")[step.number // 7 % 3])

    return on_step


def test_epoch_and_topology_come_back_and_messages_go_on_by_the_new_ways() -> None:
    before = plain(BUSY, wish=switching)
    assert before[0][1].router.epoch >= 3
    assert survived(BUSY, judge=same_as(before), every=67, wish=switching) > 15


def test_a_journal_that_is_rewritten_meanwhile_survives_too() -> None:
    before = plain(BUSY, compact_bytes=4000, wish=switching)
    log = before[0][1].log
    assert log.compactions >= 3 and len(before[2].content("journal") or b"") < 20_000
    assert survived(BUSY, judge=same_as(before), every=67, compact_bytes=4000, wish=switching) > 15


@pytest.mark.parametrize("every", [1, 2, 3, 4])
def test_f09_a_disk_that_fails_ends_the_session_with_one_error_and_the_next_life_goes_on(every: int) -> None:
    before = plain(BUSY)
    for call in range(8 + every, before[2].calls, 61):
        disk, world = SimulatedDisk(), World()
        disk.fail_at(call, forever=every % 2 == 0)
        with pytest.raises(JournalError, match=r"cannot (write|use)"):
            life(disk, world, BUSY)
        disk.heal()
        after = life(disk, world, BUSY)
        assert violations(before[0], after, before[1], world) == [], call


# --- planted bugs: each must show --------------------------------------------------------------


def _immediately(self: DurableLog, seq: int, release: Callable[[], None]) -> None:
    release()


def _without(name: str) -> Callable[[DurableLog, Kind, dict[str, Any]], int]:
    write = DurableLog.write

    def forgets(self: DurableLog, kind: Kind, payload: dict[str, Any]) -> int:
        return write(self, kind, {k: v for k, v in payload.items() if k != name or kind is not Kind.STEP})

    return forgets


async def _no_barrier(self: DurableLog) -> None: ...


def _backwards(self: DurableLog, journal: Any, seq: int) -> None:
    ready = [entry for entry in self._waiting if entry[0] is not journal or entry[1] <= seq]
    for entry in ready:
        self._waiting.remove(entry)
    for entry in reversed(ready):
        entry[2]()


def _forgets_done(self: State, payload: dict[str, Any]) -> dict[str, Any] | None:
    under = self.messages.get(payload["m"])
    self.snapshots[payload["by"]] = payload.get("state", self.snapshots[payload["by"]])
    return under.row if under is not None else None


def _last_in_first_out(self: State) -> Iterator[Any]:
    return iter(reversed(list(_ways(self))))


_ways = State.ways

PLANTED: dict[str, tuple[Mapping[str, Act], type, str, Any]] = {
    "outputs are let out before they are on disk": (BOLD, DurableLog, "then", _immediately),
    "a step forgets the agent's state": (BUSY, DurableLog, "write", _without("state")),
    "calls of a cut step are made again": (BOLD, DurableDesk, "_known", lambda self, key: None),
    "a tool is called before that is on disk": (BOLD, DurableLog, "barrier", _no_barrier),
    "a handled message is not taken off": (BUSY, State, "_moved", _forgets_done),
    "what was under way is put back in the wrong order": (BUSY, State, "ways", _last_in_first_out),
    "steps are let out in the wrong order": (BUSY, DurableLog, "_release", _backwards),
    "the ledger's entries are not applied": (BUSY, State, "_ledger", lambda self, payload: None),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_planted(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    acts, owner, name, wrong = PLANTED[bug]
    before = plain(acts)
    monkeypatch.setattr(owner, name, wrong)
    judge = same_as(before) if acts is BUSY else unjustified
    for stop in stops(acts, every=5, begin=3):
        WORLDS[:] = [stop.world]
        try:
            after = life(stop.disk, stop.world, acts)
        except (KeyError, AssertionError):
            return
        if judge(after, stop.world):
            return
    pytest.fail("nothing noticed")
