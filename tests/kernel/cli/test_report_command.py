"""``apex report`` from the outside: forms, files, and one line for what is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from judged_runs import run_folder

from apex_framework.cli.boundary import run
from apex_framework.experiment.manifest import REPORTS, strangers, write_manifest
from apex_framework.ports import SystemFiles

ARMS = {"bandit_v1": 50, "static_star": 40, "single": 45}


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A run folder of eighty tasks; arm A solves the first ARMS[A] of them."""
    path = run_folder(tmp_path / "run", ARMS)
    write_manifest(path, SystemFiles())
    return path


def test_a_report_is_data_on_stdout(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(finished)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "bandit_v1" in shown.out and "62.5 %" in shown.out


def test_only_a_finished_run_as_it_was_is_reported_without_a_word(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (finished / "episodes.jsonl").write_bytes((finished / "episodes.jsonl").read_bytes().replace(b"false", b"true"))
    assert run(["report", str(finished)]) == 3
    shown = capsys.readouterr()
    assert shown.out == "" and "episodes.jsonl is missing or was changed after the run" in shown.err
    (finished / "DONE").unlink()
    assert run(["report", str(finished)]) == 0
    assert capsys.readouterr().err == f"{finished} has no DONE, so nothing vouches for its files\n"


def test_a_report_in_another_form_goes_to_a_file(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.md"
    assert run(["report", str(finished), "--report", "markdown", "--out", str(out)]) == 0
    assert "## Arms" in out.read_text() and str(out) in capsys.readouterr().out


def test_a_report_replaces_the_file_whole(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.md"
    out.write_text("old")
    (tmp_path / "link.md").symlink_to(out)
    (tmp_path / "old.md").hardlink_to(out)  # shows whether the old file itself was written into
    assert run(["report", str(finished), "--out", str(tmp_path / "link.md")]) == 0
    assert (tmp_path / "old.md").read_text() == "old"
    assert (tmp_path / "link.md").is_symlink()
    assert "bandit_v1" in out.read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.md", "old.md", "report.md", "run"]


def test_a_report_goes_to_a_pipe_too(finished: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run(["report", str(finished), "--out", str(tmp_path / "pipe")]) == 0
        assert b"bandit_v1" in os.read(reader, 65_536)
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_a_page_and_its_figures_are_written_whole_or_not_at_all(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, figures = tmp_path / "report.html", tmp_path / "figures"
    arguments = ["report", str(finished), "--format", "html", "--out", str(out), "--figures", str(figures)]
    assert run([*arguments, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert "text" not in value and out.read_text().startswith("<!DOCTYPE html>")
    assert (value["verdict"], value["decision"], value["against"]) == ("INCONCLUSIVE", "EXTEND", "static_star")
    assert value["lift"] == 0.125 and value["interval"][0] < 0.125 < value["interval"][1]
    written = {str(path): path.read_bytes() for path in figures.iterdir()}
    assert sorted(written) == value["figures"] and str(figures / "forest.svg") in written
    assert run(arguments) == 0
    assert {str(path): path.read_bytes() for path in figures.iterdir()} == written
    (figures / "mine.txt").write_text("mine")
    out.unlink()
    capsys.readouterr()
    assert run(arguments) == 3
    assert "holds files that are no figures of this report, such as mine.txt" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("place", ["episodes.jsonl", "metrics/report.html", "."])
@pytest.mark.parametrize("option", ["--out", "--figures"])
def test_no_report_is_written_over_a_part_of_its_run(
    place: str, option: str, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    assert run(["report", str(finished), "--format", "html", option, str(finished / place)]) == 2
    assert capsys.readouterr().err.startswith("error[E0200]: ")
    assert {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()} == before
    assert run(["report", str(finished), "--out", str(finished / "report" / "mine.txt")]) == 3  # no such folder yet
    (finished / REPORTS).mkdir()
    assert run(["report", str(finished), "--out", str(finished / REPORTS / "mine.txt")]) == 0
    assert strangers(finished) == []


def test_json_carries_the_same_text(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(finished)]) == 0
    text = capsys.readouterr().out
    assert run(["report", str(finished), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["report"], value["out"]) == ("table", None)
    assert value["text"].rstrip() == text.rstrip()


@pytest.mark.parametrize(
    ("arguments", "status", "code", "remedy"),
    [
        (["{run}", "--report", "tabel"], 2, "E0201", "did you mean 'table'?"),
        (["{run}/no-run"], 3, "E0303", "name a folder that apex run made"),
        (["{run}", "--out", "{run}-none/report.md"], 3, "E0302", "choose another --out"),
        (["{run}", "--figures", "{run}-figures"], 2, "E0200", "--format html does"),
        (["{run}", "--format", "html", "--figures", "{run}/DONE/x"], 2, "E0200", "choose another place"),
        ([], 2, "E0200", "apex report --help"),
    ],
    ids=["unknown form", "no run folder", "no place for the file", "no figures", "a figure in a run", "no run"],
)
def test_what_is_wrong_is_one_line_and_a_remedy(
    arguments: list[str], status: int, code: str, remedy: str, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", *(a.format(run=finished) for a in arguments)]) == status
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"error[{code}]: ") and remedy in shown.err and shown.err.count("\n") == 2
