"""Bench kills and bench harness: nothing finished is lost or doubled, and the judge sees it when something is."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from apex_framework.benches import harness, kills


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="workers are found through /proc")
def test_killed_runs_come_to_their_end_with_every_episode_once() -> None:
    rows = {str(row["metric"]): row["value"] for row in kills.run(SimpleNamespace(n=5, seed=3, seeds=20))}
    assert rows["kills of the driver"] + rows["kills of a worker"] == 5  # type: ignore[operator]  # numbers
    assert [rows[fault] for fault in ("lost", "doubled", "unlike", "stuck")] == [0, 0, 0, 0]


def story(folder: Path, told: list[int], written: list[int]) -> Counter[str]:
    """What the judge counts of a folder with these lines, when these were acknowledged."""
    counts: Counter[str] = Counter()
    made = kills._Story(folder, random.Random(0), counts, 0, 0)
    for seed in told:
        made._take(json.dumps(["one", "25", seed]))
    lines = [json.dumps({"arm": "one", "task_id": "25", "seed": seed, "status": "finished"}) for seed in written]
    (folder / "episodes.jsonl").write_text("".join(f"{line}\n" for line in lines) + '{"torn')
    made._check()
    return counts


def test_the_judge_sees_lost_and_doubled_episodes(tmp_path: Path) -> None:
    assert +story(tmp_path, [1, 2], [1, 2, 3]) == {}
    assert +story(tmp_path, [1, 2], [1]) == {"lost": 1}
    assert +story(tmp_path, [1], [1, 2, 2]) == {"doubled": 1}


def driver_that(folder: Path, does: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers of all runs but the calm one are shells that do this."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\ncase "$3" in */calm) exec "{sys.executable}" "$@";; esac\n{does}\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


def test_runs_whose_drivers_fail_are_stuck_and_not_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver_that(tmp_path, "echo no way >&2; exit 3", monkeypatch)
    said: list[str] = []
    rows = {str(row["metric"]): row["value"] for row in kills.run(SimpleNamespace(n=5, seeds=1, say=said.append))}
    assert (rows["stuck"], rows["runs brought to their end"]) == (kills.MOST_STUCK, 0)
    assert said == ["a driver ended with status 3: no way\n"] * kills.MOST_STUCK


@pytest.mark.parametrize("left", [0, 5])
def test_a_driver_that_hangs_is_told_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    driver_that(tmp_path, "exec sleep 60", monkeypatch)
    counts: Counter[str] = Counter()
    made = kills._Story(tmp_path / "run", random.Random(0), counts, left, 1, patience_s=0.2)
    assert made.to_the_end() == "a driver hung: " and +counts == {}


def test_the_harness_bench_measures_cpu_and_memory() -> None:
    rows = list(harness.run(SimpleNamespace(n=20)))
    found = {(row["case"], row["metric"]): row["value"] for row in rows}
    assert found["20 null episodes", "cpu per episode"] > 0  # type: ignore[operator]  # a number
    assert found["20 null episodes", "resident memory after the last slice"] > 1  # type: ignore[operator]  # a number
    assert ("local executor, one worker", "cpu per episode") in found
