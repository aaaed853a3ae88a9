"""A program stopped at every one of its calls to the disk, with every disk that may be left::

def work(disk):
    with Journal.open(disk.root / "journal", files=disk) as journal:
        journal.append(64, 0, {"n": 1})
        journal.sync()
        told.append(1)

for crash in crashes(work, before=told.clear):
    with Journal.open(crash.disk.root / "journal", files=crash.disk) as journal:
        assert len(journal.records) >= len(told), crash
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .disk import Crash, SimulatedCrash, SimulatedDisk


@dataclass(frozen=True)
class Crashed:
    """One crash and the disk that it left: ``call`` is the number of the one that did not happen, ``before`` its name."""

    call: int
    before: str
    model: Crash
    keep: int
    seed: int
    disk: SimulatedDisk = field(repr=False)


def crashes(
    work: Callable[[SimulatedDisk], None],
    *,
    before: Callable[[], None] = lambda: None,
    make: Callable[[], SimulatedDisk] = SimulatedDisk,
    draws: int = 8,
    step: int = 1,
) -> Iterator[Crashed]:
    """Run ``work`` on a fresh disk again and again, stop it at each of its calls, and give every disk that may be left.

    ``before`` is called before each run, to forget what the run before did. PREFIX and ZEROED are tried at every
    ``step``-th byte, REORDERED and TORN ``draws`` times. The last crash comes after the work was done. What
    ``work`` raises after the machine stopped is dropped: nobody was there any more to see it.
    """
    for call in itertools.count(1):
        before()
        disk = make()
        disk.stop_at(call)
        try:
            work(disk)
        except (SimulatedCrash, Exception):
            if not disk.stopped:
                raise
        for model, keep, seed in _models(disk.unsynced, draws, step):
            yield Crashed(call, disk.stopped, model, keep, seed, disk.crash(model, keep=keep, seed=seed + call))
        if not disk.stopped:
            return


def _models(unsynced: int, draws: int, step: int) -> Iterator[tuple[Crash, int, int]]:
    yield Crash.KILLED, 0, 0
    if not unsynced:
        return  # nothing to lose: every model leaves the same
    yield Crash.LOST, 0, 0
    for keep in range(0, unsynced, step):
        yield Crash.PREFIX, keep, 0
        yield Crash.ZEROED, keep, 0
    for seed in range(draws):
        yield Crash.REORDERED, 0, seed
        yield Crash.TORN, 0, seed
