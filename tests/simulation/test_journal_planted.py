"""Bugs planted into the shipped journal: the exploration of crashes and failures finds each of them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
from journal_story import hunt

from apex_framework.errors import JournalError
from apex_framework.ports import SystemFiles, _SystemLog
from apex_framework.runtime import journal as journal_module
from apex_framework.runtime import recovery
from apex_framework.runtime.journal import COMMIT, Journal, JournalSwitchLog
from apex_framework.runtime.switchlog import SwitchRecord

SYNC, SEARCH, DURABLE = _SystemLog.sync, recovery.recover, Journal.durable


def sync_twice(log: _SystemLog) -> None:
    try:
        SYNC(log)
    except OSError:
        SYNC(log)


def skip_first_sync(log: _SystemLog) -> None:
    if vars(log).setdefault("opened", False):
        SYNC(log)
    vars(log)["opened"] = True


def make_in_place(files: SystemFiles, path: Path, content: bytes) -> int | None:
    fd = files._locked(path, os.O_RDWR | os.O_CREAT)
    if fd is not None:
        files._system.write(fd, content, 0)
        files._system.sync(fd)
    return fd


def undo_unsynced(journal: Journal) -> bool:
    journal._log.truncate(journal._durable[1])
    return True


def undo_without_slot(journal: Journal) -> bool:
    with contextlib.suppress(OSError):
        undo_unsynced(journal)
        journal._log.sync()
    return True


def fail_and_go_on(journal: Journal, error: BaseException) -> NoReturn:
    raise JournalError("cannot write") from error


async def ride_along(journal: Journal, seq: int) -> None:
    if journal._round is not None:
        await journal._round.wait()  # it may have begun before the record was written
        return
    await DURABLE(journal, seq)


async def acknowledge_at_once(journal: Journal, seq: int) -> None:
    await asyncio.sleep(0)


async def drop_failures(journal: Journal, seq: int) -> None:
    with contextlib.suppress(JournalError):
        await DURABLE(journal, seq)


def append_only(log: JournalSwitchLog, record: SwitchRecord) -> None:
    log._journal.append(COMMIT, record.epoch, journal_module._form(record))


def trust_the_cache(data: bytes, path: object) -> recovery.Recovered:
    found = SEARCH(data, path)
    return dataclasses.replace(found, sure=found.end)


def cut_anywhere(data: bytes, at: int, seq: int, path: object) -> None:
    """Whatever is unreadable is taken for a torn tail."""


PLANTED: dict[str, tuple[object, str, object]] = {
    "no sync at all": (_SystemLog, "sync", lambda log: None),
    "a failed sync is tried again": (_SystemLog, "sync", sync_twice),
    "opening does not sync what it shows": (_SystemLog, "sync", skip_first_sync),
    "opening trusts what a failed sync left readable": (journal_module, "recover", trust_the_cache),
    "the folder is not synced": (SystemFiles, "_sync_folder", lambda files, folder: None),
    "a new journal is written in place": (SystemFiles, "_made", make_in_place),
    "nothing is ever cut": (_SystemLog, "truncate", lambda log, size: None),
    "a failure is not undone": (Journal, "_undone", lambda journal: True),
    "an undo is not synced": (Journal, "_undone", undo_unsynced),
    "a failed undo is not marked": (Journal, "_undone", undo_without_slot),
    "the mark is not read": (recovery, "_limit", len),
    "a failure does not end the writing": (Journal, "_fail", fail_and_go_on),
    "acknowledged before the sync": (Journal, "durable", acknowledge_at_once),
    "acknowledged by a sync that began before": (Journal, "durable", ride_along),
    "a failed sync is acknowledged": (Journal, "durable", drop_failures),
    "COMMIT is not synced": (JournalSwitchLog, "commit", append_only),
    "checksums are not compared": (recovery, "zlib", SimpleNamespace(crc32=lambda data: 0)),
    "a torn tail is refused": (recovery, "_never_arrived", lambda data, start, stop: False),
}
"""What is wrong -> the place that is patched, and with what."""


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, broken = PLANTED[bug]
    monkeypatch.setattr(place, name, broken)
    with pytest.raises((AssertionError, JournalError)):
        hunt()
