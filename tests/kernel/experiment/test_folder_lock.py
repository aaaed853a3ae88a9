"""The lock of a run folder: one holder at a time, whoever opened the file when."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from apex_framework.errors import RunFolderError
from apex_framework.experiment.lock import LOCK, FolderLock


def test_who_opened_the_file_before_a_release_meets_the_next_holder(tmp_path: Path) -> None:
    first = FolderLock(tmp_path)
    early = os.open(tmp_path / LOCK, os.O_RDWR)
    try:
        first.release()
        second = FolderLock(tmp_path)
        with pytest.raises(BlockingIOError):
            fcntl.flock(early, fcntl.LOCK_EX | fcntl.LOCK_NB)
        second.release()
    finally:
        os.close(early)


def test_a_lock_on_a_file_that_is_gone_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take, taken = fcntl.flock, []

    def late(fd: int, operation: int) -> None:
        if not taken:
            (tmp_path / LOCK).unlink()  # as a holder does that discards its folder, between our open and our lock
        taken.append(fd)
        take(fd, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    held = FolderLock(tmp_path)
    assert len(taken) == 2
    with pytest.raises(RunFolderError, match=f"in use by process {os.getpid()} on "):
        FolderLock(tmp_path)
    held.release()


def test_release_and_remove_may_be_called_again(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    lock.release()
    lock.release()
    lock.remove()
    assert (tmp_path / LOCK).read_bytes() == b""
    lock = FolderLock(tmp_path)
    lock.remove()
    lock.remove()
    assert not (tmp_path / LOCK).exists()
