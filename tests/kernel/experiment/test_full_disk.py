"""A run folder whose disk fills up, or turns read-only, at any call: it stops with a cause, and keeps what was told."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from apex_framework.episode.arm import Arm
from apex_framework.errors import RunFolderError
from apex_framework.experiment.artifacts import RunFolder
from apex_framework.experiment.plan import Key, Plan, PlannedTask
from apex_framework.experiment.run import Runner, RunOutcome, Work
from apex_framework.interfaces import EpisodeJob, EpisodeResult
from apex_framework.ports import LocalFileSystem, SystemFiles

MakePlan = Callable[..., Plan]


class Here:
    """Runs the episodes in this process."""

    def run(self, jobs: Iterable[EpisodeJob], work: Work, *, workers: int) -> Iterator[EpisodeResult]:
        yield from map(work, jobs)


class Unsynced(LocalFileSystem):
    """Real files, without the wait for the disk: nobody pulls the plug here."""

    def sync(self, fd: int) -> None:
        pass


class FillsUp(Unsynced):
    """From a call on, everything that needs room fails."""

    def __init__(self, room_for: int, error: int) -> None:
        self.left = room_for
        self.error = error

    def _take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(self.error, os.strerror(self.error))

    def open(self, path: Path, flags: int) -> int:
        self._take()
        return super().open(path, flags)

    def write(self, fd: int, data: bytes | memoryview, offset: int | None) -> int:
        self._take()
        if self.left == 0:
            data = data[: len(data) // 2]  # a full disk takes a part first
        return super().write(fd, data, offset)

    def sync(self, fd: int) -> None:
        self._take()

    def rename(self, old: Path, new: Path) -> None:
        self._take()
        super().rename(old, new)


def run(path: Path, plan: Plan, work: Callable[..., object], system: LocalFileSystem, told: list[Key]) -> RunOutcome:
    files = SystemFiles(system)
    there = (path / "run.json").exists()
    with RunFolder.reopen(path, files=files) if there else RunFolder.create(path, plan, files=files) as folder:

        def on_result(result: object) -> None:
            told.append(list(folder.records)[-1])

        return Runner(folder, Here(), work, on_result=on_result).run()  # type: ignore[arg-type]  # any work


def contents(path: Path) -> dict[str, str]:
    """The rows and patches that a run leaves, without wall times."""
    files = sorted(p for p in path.rglob("*") if p.suffix in (".jsonl", ".diff"))
    return {str(p.relative_to(path)): re.sub(r'"wall_ms":[^,}]+', "", p.read_text()) for p in files}


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
def test_f52_a_disk_that_fills_up_at_any_call_stops_the_run_with_a_cause_and_loses_nothing_told(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType, error: int
) -> None:
    plan = make_plan(arms=(Arm("static_star"),), tasks=(PlannedTask("alpha-0", "alpha"), PlannedTask("beta-0", "beta")))
    assert run(tmp_path / "whole", plan, fake_episodes.work, Unsynced(), []).complete
    for room in range(1000):
        path, told = tmp_path / str(room), list[Key]()
        try:
            assert run(path, plan, fake_episodes.work, FillsUp(room, error), told).complete
            break
        except RunFolderError as stop:
            assert os.strerror(error) in stop.cause and stop.remedy and stop.exit_status == 3
        if path.exists() and not (path / "DONE").exists():
            with RunFolder.reopen(path, files=SystemFiles(Unsynced())) as folder:
                assert set(told) <= set(folder.records)
            assert run(path, plan, fake_episodes.work, Unsynced(), []).complete
        if path.exists():
            assert contents(path) == contents(tmp_path / "whole")
    assert room > 30
