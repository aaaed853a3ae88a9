"""The lock of a run folder: one holder at a time, whoever opened the file when."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from apex_framework.errors import RunFolderError
from apex_framework.experiment.lock import LOCK, FolderLock, claim, require_free


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


KILLED = json.dumps({"pid": 1, "host": "h"})
"""A lock file whose holder gave nothing free."""
BEGUN = ("config.toml", ".config.toml.7.tmp", ".run.json.7.tmp")


def test_what_a_run_leaves_that_was_killed_before_its_plan_was_written_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text(KILLED)
    for name in BEGUN:
        (tmp_path / name).touch()
    require_free(tmp_path)
    lock, made = claim(tmp_path)
    assert not made and [path.name for path in tmp_path.iterdir()] == [LOCK]
    lock.release()


@pytest.mark.parametrize(
    ("held", "name"),
    [(None, "config.toml"), ("", "config.toml"), (KILLED, "notes.txt"), (KILLED, ".config.toml.x.tmp")],
)
def test_a_file_that_may_be_somebodys_is_left_alone(tmp_path: Path, held: str | None, name: str) -> None:
    (tmp_path / name).write_text("mine")
    if held is not None:
        (tmp_path / LOCK).write_text(held)
    for ask in (require_free, claim):
        with pytest.raises(RunFolderError, match="not empty and holds no run"):
            ask(tmp_path)
    assert (tmp_path / name).read_text() == "mine"
