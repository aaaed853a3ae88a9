"""``apex bench``: options that a bench does not read are refused, rows go where ``--out`` says, and pinning is said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from apex_framework import benches
from apex_framework.cli.boundary import run


def test_modules_without_a_run_are_not_benches() -> None:
    names = benches.names()
    assert {"profiles", "stress", "degradation", "overhead", "promises"} <= set(names)
    assert not {"load", "trial", "fates"} & set(names)


def test_options_that_a_bench_reads_are_found_in_its_source() -> None:
    assert {"n"} <= benches.options("budget")
    assert benches.options("stress") >= {"seeds", "seconds", "profile", "profile_file"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["startup", "--seeds", "3"], "bench startup has no option --seeds"),
        (["budget", "--profile", "S"], "bench budget has no option --profile"),
        (["stress", "-n", "3"], "bench stress has no option -n"),
        (["-n", "3"], "none is named"),
        (["--pin"], "none is named"),
        (["budget", "-n", "0"], "Invalid value for '-n'"),
        (["stress", "--seconds", "0"], "Invalid value for '--seconds'"),
        (["stress", "--seconds", "1e-9"], "at least 0.1"),
        (["stress", "--seconds", "nan"], "nan is not a finite number"),
        (["stress", "--seconds", "inf"], "inf is not a finite number"),
        (["stress", "--profile", ""], "Invalid value for '--profile'"),
        (["stress", "--seed", "-1"], "Invalid value for '--seed'"),
        (["stress", "--seconds", "1", "--seeds", "1", "--profile", "Q"], "unknown profile 'Q'"),
        (["stres"], "unknown bench 'stres'"),
        (["budget", "--speed", "3"], "No such option"),
    ],
)
def test_wrong_use_exits_2_with_one_line(arguments: list[str], says: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert says in err and err.startswith("error[E02") and err.count("\n") <= 2


def test_rows_are_written_as_lines_under_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "artifacts"
    arguments = ["--json", "bench", "profiles", "-n", "300", "--profile", "N", "--out", str(folder)]
    assert run(arguments) == 0
    shown = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    written = [json.loads(line) for line in (folder / "profile_latency.jsonl").read_text().splitlines()]
    assert shown == written and len(shown) > 5
    assert all(len(row["profile_sha256"]) == 64 for row in written)


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_measured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(["bench", "budget", "-n", "10", "--out", str(tmp_path / "file" / "below")]) == 3
    out, err = capfd.readouterr()
    assert out == "" and "cannot write" in err


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot pin")
def test_pinning_is_said_in_the_rows_and_undone(capfd: pytest.CaptureFixture[str]) -> None:
    before = os.sched_getaffinity(0)
    assert run(["--json", "bench", "budget", "-n", "10", "--pin"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert all(row["cpu"].startswith("pinned to processor") for row in rows)
    assert os.sched_getaffinity(0) == before


def test_a_refused_pinning_is_said_in_the_rows(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(pid: int, processors: set[int]) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refused, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    assert run(["--json", "bench", "budget", "-n", "10", "--pin"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert {row["cpu"] for row in rows} == {"not pinned: Operation not permitted"}
