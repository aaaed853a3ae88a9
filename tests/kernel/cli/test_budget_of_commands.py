"""Budgets of whole runs as a user meets them: real processes, killed, two at once, raised, spent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from apex_budgets.store import SharedStore
from apex_framework.experiment.artifacts import CUT, read_plan
from apex_framework.experiment.manifest import STORE, verify_manifest

RUN = ("run", "--no-baselines", "--controller", "static:star", "--budget", "3000")


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "apex_framework", *arguments],
        cwd=folder,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def rows(path: Path) -> list[dict[str, Any]]:
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [json.loads(line) for line in whole.splitlines()]


def paid(folder: Path) -> int:
    return sum(row["tokens"] for name in ("episodes.jsonl", CUT) for row in rows(folder / name))


def without_times(path: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.endswith("_ms")} for row in rows(path)]


@pytest.mark.slow
def test_a_run_never_exceeds_its_budget_over_all_its_workers_is_raised_and_gives_the_same_episodes(
    tmp_path: Path,
) -> None:
    tasks = ("--episodes", "6", "--workers", "3")
    status, out, err = end(start(tmp_path, *RUN, *tasks, "--run-budget", "8000", "--out", "r", "--json"))
    assert status == 6, err
    told = json.loads(out)
    assert told["spent"]["scope"] == "run" and told["finished"] < told["planned"] == 6
    assert "stopped: the global budget is spent:" in err and "apex resume r --run-budget N" in err
    assert 6_000 < paid(tmp_path / "r") <= 8_000

    assert end(start(tmp_path, "resume", "r", "--run-budget", "60"))[0] == 2
    status, _, err = end(start(tmp_path, "resume", "r", "--run-budget", "60000"))
    assert status == 0, err
    assert end(start(tmp_path, *RUN, *tasks, "--out", "free"))[0] == 0
    assert without_times(tmp_path / "r" / "episodes.jsonl") == without_times(tmp_path / "free" / "episodes.jsonl")
    verify_manifest(tmp_path / "r")
    assert [path.name for path in (tmp_path / "r").glob("budget*")] == [STORE]


@pytest.mark.slow
def test_killed_in_the_middle_what_it_held_counts_and_the_run_goes_on_within_its_budget(tmp_path: Path) -> None:
    folder, tokens = tmp_path / "r", 40_000
    process = start(tmp_path, *RUN, "--episodes", "8", "--run-budget", str(tokens), "--out", "r")
    while len(rows(folder / "episodes.jsonl")) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    run_id = read_plan(folder).run_id
    store = SharedStore(folder / STORE)
    spent, alive, dead = store.balance("run", run_id, 0.0)
    assert paid(folder) <= spent + alive + dead <= tokens

    status, _, err = end(start(tmp_path, "resume", "r"))
    assert status == 0, err
    spent, _, dead = store.balance("run", run_id, time.time() + 3_600)
    assert len(rows(folder / "episodes.jsonl")) == 8 and paid(folder) <= spent and spent + dead <= tokens
    assert [path.name for path in folder.glob("budget*")] == [STORE]


@pytest.mark.slow
def test_two_runs_at_once_share_a_day_and_a_third_finds_it_spent(tmp_path: Path) -> None:
    day = ("--day-budget", "12000", "--set", "day_store=day.sqlite3")
    both = [start(tmp_path, *RUN, "--episodes", "6", *day, "--seed", seed, "--out", f"r{seed}") for seed in "12"]
    ended = [end(process) for process in both]
    assert [status for status, _, _ in ended] == [6, 6], ended
    spent = paid(tmp_path / "r1") + paid(tmp_path / "r2")
    assert 9_000 < spent <= 12_000
    low = (*day[2:], "--day-budget", str(spent))
    status, _, err = end(start(tmp_path, *RUN, "--episodes", "2", *low, "--out", "r3"))
    assert status == 6 and "0 of" in err and "it opens again at" in err and len(err.splitlines()) == 2
    assert not (tmp_path / "r3").exists()
    status, _, err = end(start(tmp_path, "resume", "r1", "--day-budget", "100000"))
    assert status == 0, err


@pytest.mark.slow
def test_a_training_is_bounded_by_days_only_and_one_that_is_cut_short_writes_nothing(tmp_path: Path) -> None:
    train = ("train", "--episodes", "2", "--out", "p.npz")
    status, _, err = end(start(tmp_path, *train, "--run-budget", "9000"))
    assert status == 2 and "no run folder" in err
    status, _, err = end(start(tmp_path, *train, "--day-budget", "900"))
    assert status == 6 and "cut an episode of round 0 short" in err
    assert not list(tmp_path.glob("p.*"))
