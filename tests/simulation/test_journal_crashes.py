"""The journal on a disk that forgets: stopped at every call, failed at every call, and again while it recovers."""

from __future__ import annotations

import contextlib
import errno
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journal_story import Story, check_failures, check_recovery, clean_calls, explore, read

from apex_framework.errors import JournalError
from apex_framework.testing.crashes import crashes
from apex_framework.testing.disk import Crash, SimulatedCrash, SimulatedDisk


def test_whatever_call_the_machine_stops_at_no_acknowledged_record_is_lost_and_no_refused_one_found() -> None:
    points, ends = 0, set()
    for crash, story in explore():
        ends.add(len(check_recovery(crash.disk, story)))
        points += 1
    assert points > 3000
    assert len(ends) > 8  # the crashes fell everywhere


@pytest.mark.slow
def test_large_records_survive_in_any_mixture_of_their_sectors() -> None:
    ends = set()
    for crash, story in explore(size=700, step=101, draws=100):
        ends.add(len(check_recovery(crash.disk, story)))
    assert len(ends) > 8


@pytest.mark.slow
def test_writes_that_take_only_a_part_change_nothing() -> None:
    for crash, story in explore(short_writes=True, size=300, step=100, draws=20):
        check_recovery(crash.disk, story)


@pytest.mark.slow
def test_f07_a_crash_at_any_call_of_a_recovery_ends_in_the_same_state() -> None:
    points = 0
    for crash, story in explore(step=60):
        if crash.model is Crash.KILLED:  # what it may show is settled only once a recovery is through
            continue
        found = check_recovery(crash.disk.crash(Crash.KILLED), story)
        for again in crashes(
            lambda disk: void(read(disk)), make=lambda crash=crash: crash.disk.crash(Crash.KILLED), step=80, draws=1
        ):
            assert read(again.disk) == found
            points += 1
    assert points > 3000


@pytest.mark.parametrize("first", [Crash.KILLED, Crash.LOST, Crash.TORN])
def test_f07_five_crashes_in_a_row_inside_recovery_end_in_the_same_state(first: Crash) -> None:
    rng = random.Random(5)
    for crash, story in explore(step=60):
        if crash.model is not first:
            continue
        disk = crash.disk
        for _ in range(5):
            disk.stop_at(rng.randint(1, 12))
            with contextlib.suppress(SimulatedCrash):
                read(disk)
            disk = disk.crash(rng.choice(list(Crash)), keep=rng.randint(0, 100), seed=rng.randint(0, 9))
        check_recovery(disk, story)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_f09_whatever_call_fails_what_was_refused_is_never_found_and_what_was_acknowledged_always(error: int) -> None:
    assert check_failures(error) == 0  # one failure can always be undone


def test_f09_where_the_undoing_fails_too_the_next_opening_completes_it() -> None:
    assert check_failures(errno.EIO, times=2) == 0


def test_f09_on_a_disk_that_fails_for_good_the_journal_says_that_it_is_in_doubt() -> None:
    assert check_failures(errno.EIO, forever=True) > 5


@pytest.mark.slow
def test_f09_a_crash_anywhere_after_a_failure_anywhere() -> None:
    for fault in range(1, clean_calls() + 1):
        for crash, story in explore(step=200, draws=2, fault=fault):
            check_recovery(crash.disk, story)


STEPS = {"sync": [0], "switch": [1], "group": [2]}
"""What a story does at a step."""


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    acts=st.lists(st.sampled_from(["sync", "switch", "group", "reopen", "crash", "fail"]), max_size=12),
    seed=st.integers(0, 10_000),
    size=st.sampled_from([0, 5, 300, 1500]),
)
def test_any_history_of_work_failures_and_crashes_is_told_truly(acts: list[str], seed: int, size: int) -> None:
    rng = random.Random(seed)
    story = Story(SimulatedDisk(seed=seed, short_writes=seed % 2 == 1), size)
    for act in acts:
        try:
            with story.opened() as journal:
                if act == "fail":
                    story.disk.fail_at(rng.randint(1, 8), rng.choice([errno.EIO, errno.ENOSPC]))
                elif act == "crash":
                    story.disk.stop_at(rng.randint(1, 12))
                for step in STEPS.get(act) or rng.choices(range(3), k=rng.randint(0, 4)):
                    story.work(journal, step)
            story.told = len(story.written)
        except JournalError as error:
            story.refused(error)
        except SimulatedCrash:
            pass
        if story.over:
            break
        story.disk.heal()
        if story.disk.stopped or rng.random() < 0.2:
            model = rng.choice(list(Crash))
            story.disk = story.disk.crash(model, keep=rng.randint(0, 1 + story.disk.unsynced), seed=seed)
    check_recovery(story.disk.crash(Crash.KILLED), story)


def void(_: object) -> None:
    """A result that is not wanted."""
