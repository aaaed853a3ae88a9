"""The program's frame: statuses, the two channels, and errors in two lines."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from apex_framework import __version__
from apex_framework.cli import COMMANDS
from apex_framework.cli.boundary import run
from apex_framework.cli.program import apex
from apex_framework.errors import (
    BackendError,
    MissingExtraError,
    RunFolderError,
)
from apex_framework.testing import check_command


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state" / "apex-framework"


def fails_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace a command by one that raises."""

    def callback() -> None:
        raise error

    monkeypatch.setitem(sys.modules, "failing_command", type(sys)("failing_command"))
    sys.modules["failing_command"].command = click.Command("fails", callback=callback)  # type: ignore[attr-defined]  # made here
    monkeypatch.setitem(COMMANDS, "fails", ("failing_command:command", "Fail."))


def test_version_and_help_end_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"apex {__version__}\n"
    for arguments in (["--help"], []):
        assert run(arguments) == 0
        out = capsys.readouterr().out
        assert all(name in out and summary in " ".join(out.split()) for name, (_, summary) in COMMANDS.items())
        assert "Exit status:" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_exists_with_its_summary_and_json(name: str) -> None:
    command = apex.get_command(click.Context(apex), name)
    assert command is not None and command.name == name
    assert any("--json" in p.opts for p in command.params)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_passes_the_kit(name: str) -> None:
    module, _, attribute = COMMANDS[name][0].partition(":")
    check_command(lambda: getattr(importlib.import_module(module), attribute))


def test_the_table_is_in_order() -> None:
    assert list(COMMANDS) == sorted(COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "cause", "remedy"),
    [
        (["plugns"], "error[E0201]: unknown command 'plugns'", "did you mean 'plugins'?"),
        (["-p", "ring", "plugins"], "error[E0200]: -p 'ring' is not understood", "-p no:NAME leaves a plugin out"),
        (["-p", "no:rong", "plugins"], "error[E0201]: unknown plugin 'rong'", "known: "),
        (["plugins", "topolgy"], "error[E0201]: unknown kind of plugin 'topolgy'", "did you mean 'topology'?"),
        (["plugins", "--nope"], "error[E0200]: No such option", "see: apex plugins --help"),
        (["config", "show", "--config", "none.toml"], "error[E0202]: cannot read none.toml: No such file", ""),
    ],
)
def test_usage_errors_are_two_lines_on_stderr_and_status_2(
    arguments: list[str], cause: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("warning: ")]
    assert out == "" and len(lines) <= 2
    assert lines[0].startswith(cause) and remedy in err


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RunFolderError("in use", "take another"), 3, "E0302"),
        (MissingExtraError("llm 'x'", "gpu"), 3, "E0301"),
        (BackendError("down"), 4, "E0404"),
        (KeyboardInterrupt(), 130, "E0130"),
        (ZeroDivisionError("oops"), 1, "E0001"),
    ],
)
def test_every_error_has_its_status_and_with_json_is_one_object(
    error: BaseException, status: int, code: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fails_with(error, monkeypatch)
    assert run(["fails"]) == status
    assert f"error[{code}]: " in capsys.readouterr().err
    assert run(["fails", "--json"]) == run(["--json", "fails"]) == status
    for line in capsys.readouterr().out.splitlines():
        told: dict[str, Any] = json.loads(line)["error"]
        assert (told["code"], told["exit_status"]) == (code, status)


def test_a_bug_leaves_its_traceback_in_the_log_and_one_line_here(
    state_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fails_with(ZeroDivisionError("oops"), monkeypatch)
    assert run(["fails"]) == 1
    err = capsys.readouterr().err
    log = state_folder / "errors.log"
    assert err.splitlines() == ["error[E0001]: bug in apex: ZeroDivisionError: oops", f"  traceback: {log}"]
    assert "Traceback (most recent call last)" in log.read_text()


def test_an_unwritable_log_does_not_hide_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    fails_with(ZeroDivisionError("oops"), monkeypatch)
    assert run(["fails"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_plugins_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "topology"]) == 0
    out = capsys.readouterr().out
    assert out.split()[:8] == ["kind", "name", "plugin", "package", "version", "status", "load_ms", "summary"]
    assert run(["plugins", "--json", "topology"]) == 0
    rows = json.loads(capsys.readouterr().out)
    star = next(row for row in rows if row["name"] == "star")
    assert (star["kind"], star["package"], star["status"]) == ("topology", "apex-framework", "ok")
    assert star["load_ms"] >= 0


def test_a_blocked_plugin_is_listed_as_blocked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-p", "no:topologies", "--json", "plugins", "topology"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [r["status"] for r in rows if r["plugin"] == "topologies"] == ["blocked"]
    assert "star" not in {r["name"] for r in rows}


def test_a_reader_that_goes_away_is_no_error() -> None:
    program = [sys.executable, "-m", "apex_framework", "config", "schema"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(program, stdout=write, stderr=subprocess.PIPE, env=environment, timeout=60, check=False)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
