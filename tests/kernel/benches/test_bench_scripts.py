"""``python -m apex_framework.scripts.bench_runtime`` and ``bench_stress``: their flags and the files they write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from apex_framework.cli.boundary import run
from apex_framework.scripts import bench_runtime, bench_stress


def _run(command: click.Command, *arguments: object) -> int:
    return run([str(argument) for argument in arguments], command, "script")


def _rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_bench_stress_writes_rows_and_the_histogram_of_drops(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "artifacts"
    assert _run(bench_stress.main, "--out", out, "--seeds", 1, "--seconds", 1, "--seed", 2, "--json") == 0
    shown = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert _rows(out / "stress.jsonl") == shown
    drops = _rows(out / "drop_hist.jsonl")
    assert drops == [row for row in shown if str(row["metric"]).startswith("drops: ")]
    off, on = _rows(out / "switch_pre_off.jsonl"), _rows(out / "switch_pre_on.jsonl")
    assert {row["contender"] for row in off} == {"pre-validation off"}
    assert {row["contender"] for row in on} == {"pre-validation on", "pre-validation on, cache 1 s"}
    assert {"switches aborted", "switches committed"} <= {row["metric"] for row in off + on}


def test_bench_runtime_writes_each_part_into_its_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _run(bench_runtime.main, "--out", tmp_path, "--only", "decision", "--only", "epoch", "-n", 100) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"overhead.jsonl", "controller_latency.jsonl"}
    assert {row["bench"] for row in _rows(tmp_path / "overhead.jsonl")} == {"epoch"}
    assert {row["bench"] for row in _rows(tmp_path / "controller_latency.jsonl")} == {"decision"}
    assert "decide" in capfd.readouterr().out


@pytest.mark.parametrize("command", [bench_stress.main, bench_runtime.main], ids=["stress", "runtime"])
@pytest.mark.parametrize("arguments", [["--seed", "-1"], ["--nonsense"], ["--seed", "x"]])
def test_wrong_flags_exit_2(
    command: click.Command, arguments: list[str], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert _run(command, "--out", tmp_path / "out", *arguments) == 2
    assert capfd.readouterr().out == ""
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_exits_3(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert _run(bench_stress.main, "--out", tmp_path / "file" / "x", "--seeds", 1, "--seconds", 1) == 3
    assert "cannot write" in capfd.readouterr().err


@pytest.mark.parametrize("script", ["bench_stress", "bench_runtime"])
def test_they_run_as_modules(script: str) -> None:
    called = subprocess.run(
        [sys.executable, "-m", f"apex_framework.scripts.{script}", "--help"], capture_output=True, text=True, check=True
    )
    assert "--out" in called.stdout
