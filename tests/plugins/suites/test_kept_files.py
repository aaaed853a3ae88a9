"""What suites keep is on disk and whole: the cache of programs, checks, logs of comparisons."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from swebench_world import make_world

from apex_suites.cache_folder import cache_folder
from apex_suites.programs import cache
from apex_suites.programs.making import LeftOut
from apex_suites.swebench.checks import Checks, Record
from apex_suites.swebench.grading import Run
from apex_suites.swebench.rows import read_instances
from apex_suites.swebench.second_opinion import Logs


def keep_programs(folder: Path) -> str:
    cache.store(folder / "x.jsonl.gz", [], [LeftOut("a", "no fault")])
    assert cache.load(folder / "x.jsonl.gz") == ([], [LeftOut("a", "no fault")])
    return "x.jsonl.gz"


def keep_check(folder: Path) -> str:
    record = Record(True, "", ("t",), 1.5)
    Checks(folder).keep("key", record)
    assert Checks(folder).find("key") == record
    return "key.json"


def keep_log(folder: Path) -> str:
    (folder.parent / "world").mkdir()
    (instance,) = read_instances(make_world(folder.parent / "world").data)
    other = folder / "demo__tiny-1.gold.part"  # what a second comparison would be writing
    other.mkdir(parents=True)
    Logs(folder, instance).keep("key", "gold", "a patch", Run(None, "why"))
    assert Logs(folder, instance).find("key", "gold", "a patch") == Run(None, "why")
    other.rmdir()
    return "demo__tiny-1.gold.json"


@pytest.mark.parametrize("keep", [keep_programs, keep_check, keep_log])
def test_what_is_kept_is_synced_and_stands_alone(
    keep: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(fd), real(fd))[1])
    name = keep(tmp_path / "kept")
    assert synced and [path.name for path in (tmp_path / "kept").iterdir()] == [name]


def test_every_suite_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APEX_CACHE", str(tmp_path))
    assert cache_folder("swebench") == tmp_path / "swebench"
    monkeypatch.delenv("APEX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("suites").name == "suites" and cache_folder("suites").parent == cache_folder("swebench").parent
