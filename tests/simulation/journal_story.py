"""A process that works with a journal on a simulated disk, and the oracle of what it was told."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Iterator
from typing import Any

from apex_framework.errors import JournalError
from apex_framework.interfaces import AgentID, Epoch, Member, Roster
from apex_framework.ports import VirtualEffects
from apex_framework.runtime import journal as journal_module
from apex_framework.runtime.journal import Journal, JournalSwitchLog
from apex_framework.runtime.switchlog import SwitchRecord
from apex_framework.testing.crashes import Crashed, crashes
from apex_framework.testing.disk import Crash, SimulatedDisk
from apex_framework.timeloop import run

ROSTER = Roster((Member(AgentID("a"), "planner"),), AgentID("a"))
Entry = tuple[int, int, dict[str, Any]]


class Story:
    """A process that works with a journal, and what it was told: the oracle of what must, may and must not be found."""

    def __init__(self, disk: SimulatedDisk, size: int = 5) -> None:
        self.disk = disk
        self.size = size
        self.written: list[Entry] = []
        self.told = 0
        """How many records were acknowledged, or read at an opening."""
        self.over = False
        """The journal could not say what became of its last records."""

    def tell(self) -> None:
        """Twice: open, work, give up what was refused, close."""
        for episode in range(2):
            try:
                with self.opened() as journal:
                    try:
                        for step in range(3):
                            self.work(journal, step + episode)
                    except JournalError:
                        self.nothing_works(journal)
                        raise
                self.told = len(self.written)
            except JournalError as error:
                self.refused(error)
            if self.over:
                return

    def nothing_works(self, journal: Journal) -> None:
        """A journal that failed once never says yes again."""
        self.disk.heal()
        for attempt in (lambda: journal.append(64, 0, {}), journal.sync):
            try:
                attempt()
            except JournalError:
                continue
            raise AssertionError("a success after a failure")

    def opened(self) -> Journal:
        journal = Journal.open(self.disk.root / "journal", files=self.disk, effects=VirtualEffects())
        found = [(r.kind, r.epoch, r.payload) for r in journal.records]
        check_found(found, self.written, self.told)
        self.written, self.told = found, len(found)
        return journal

    def work(self, journal: Journal, step: int) -> None:
        if step % 3 == 0:
            self.append(journal, 64, step, {"n": step})
            self.append(journal, 65, step, {"text": "\u00e4" * self.size})
            journal.sync()
            self.told = len(self.written)
        elif step % 3 == 1:
            self.switch(journal, step)
        else:
            run(self.group(journal, step))

    def append(self, journal: Journal, kind: int, epoch: int, payload: dict[str, Any]) -> int:
        self.written.append((kind, epoch, payload))  # written first: a crash inside may leave it readable
        return journal.append(kind, epoch, payload)

    def switch(self, journal: Journal, epoch: int) -> None:
        log = JournalSwitchLog(journal)
        record = SwitchRecord("star", "chain", Epoch(epoch), ROSTER)
        form = json.loads(json.dumps(journal_module._form(record)))
        self.written.append((1, epoch, form))
        log.intent(record)
        self.written.append((2, epoch, form))
        log.commit(record)
        self.told = len(self.written)

    async def group(self, journal: Journal, step: int) -> None:
        async def one(n: int) -> None:
            seq = self.append(journal, 70, step, {"n": n, "text": "x" * self.size})
            await journal.durable(seq)
            self.told = max(self.told, seq)

        results = await asyncio.gather(*(one(n) for n in range(3)), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def refused(self, error: JournalError) -> None:
        """Told that nothing unacknowledged counts, it must never be found; told that it is in doubt, nobody knows."""
        if error.in_doubt:
            self.over = True
        else:
            del self.written[self.told :]


def check_found(found: list[Entry], written: list[Entry], told: int) -> None:
    assert found == written[: len(found)], "records that nobody wrote, or that were refused"
    assert len(found) >= told, f"{told - len(found)} acknowledged records are lost"


def read(disk: SimulatedDisk) -> list[Entry]:
    with Journal.open(disk.root / "journal", files=disk) as journal:
        return [(r.kind, r.epoch, r.payload) for r in journal.records]


def check_recovery(disk: SimulatedDisk, story: Story) -> list[Entry]:
    """The right records; on disk as soon as they were shown; and another opening changes nothing."""
    found = read(disk)
    check_found(found, story.written, story.told)
    content, calls = disk.content("journal"), len(disk.trace)
    assert read(disk) == found
    assert disk.content("journal") == content
    assert not {"truncate", "rename journal"} & set(disk.trace[calls:])
    assert read(disk.crash(Crash.LOST)) == found, "shown, and then lost"
    return found


def explore(
    *, step: int = 1, size: int = 5, short_writes: bool = False, fault: int = 0, draws: int = 8
) -> Iterator[tuple[Crashed, Story]]:
    """Every crash of a story, with the story as its process knew it; its call number ``fault`` failed."""
    stories: list[Story] = []

    def make() -> SimulatedDisk:
        disk = SimulatedDisk(seed=3, short_writes=short_writes)
        if fault:
            disk.fail_at(fault)
        return disk

    def work(disk: SimulatedDisk) -> None:
        stories.append(Story(disk, size))
        stories[-1].tell()

    for crash in crashes(work, make=make, step=step, draws=draws):
        yield crash, stories[-1]


def clean_calls() -> int:
    """How many calls a story makes when none fails."""
    story = Story(SimulatedDisk())
    story.tell()
    return story.disk.calls


def left_by(disk: SimulatedDisk, draws: int) -> Iterator[SimulatedDisk]:
    """What a machine that stops now may leave."""
    yield disk.crash(Crash.KILLED)
    yield disk.crash(Crash.LOST)
    for keep in range(disk.unsynced):
        yield disk.crash(Crash.PREFIX, keep=keep)
        yield disk.crash(Crash.ZEROED, keep=keep)
    for seed in range(draws):
        yield disk.crash(Crash.REORDERED, seed=seed)
        yield disk.crash(Crash.TORN, seed=seed)


def check_failures(error: int, *, times: int = 1, forever: bool = False, draws: int = 4) -> int:
    """Fail each call of a story, and the next ones up to so many; how many of the stories ended in doubt."""
    doubts = 0
    for call in range(1, clean_calls() + 1):
        story = Story(SimulatedDisk())
        for more in range(times):
            story.disk.fail_at(call + more, error, forever=forever)
        story.tell()
        doubts += story.over
        for disk in left_by(story.disk, draws):
            check_recovery(disk, story)
    return doubts


def hunt() -> None:
    """All of the above, shortened."""
    for crash, story in explore(step=20):
        check_recovery(crash.disk, story)
    check_failures(errno.EIO)
    check_failures(errno.EIO, times=2)
    check_failures(errno.EIO, forever=True)
    for fault in range(1, clean_calls() + 1):
        for crash, story in explore(step=500, draws=1, fault=fault):
            check_recovery(crash.disk, story)
