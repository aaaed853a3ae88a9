"""``apex doctor --security``: what confines task code here, tried and not claimed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from apex_framework.cli.boundary import run
from apex_framework.cli.checks.security import sandboxes, started_code
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import Confinement, Finding, Grade, Level, SandboxStatus
from apex_framework.plugins import load_plugins


@pytest.mark.slow
def test_every_sandbox_is_tried_and_what_runs_get_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "--security", "--json"]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"sandbox bwrap", "sandbox landlock", "sandbox plain", "code of suites"} <= set(rows)
    assert "RLIMITS" in rows["sandbox plain"]["found"] and "read_canary" in rows["sandbox plain"]["found"]
    verdict = rows["code of live models and foreign repositories"]
    strong = any("NAMESPACES" in row["found"] or "LANDLOCK" in row["found"] for row in rows.values())
    assert ("confined by default" in verdict["found"]) == strong
    assert ("refused" in verdict["found"]) == (not strong)


class Boaster:
    """A sandbox that is the plain one and says of itself that it holds everything."""

    name = "boaster"

    def __init__(self, **_: Any) -> None:
        self._plain = load_plugins().catalog.make("sandbox", "plain")

    def probe(self) -> SandboxStatus:
        return SandboxStatus(Level.NAMESPACES, (), ("everything",))

    def wrap(self, argv: Sequence[str], limits: Confinement) -> list[str]:
        wrapped: list[str] = self._plain.wrap(argv, limits)
        return wrapped

    def enter(self, limits: Confinement) -> None:
        self._plain.enter(limits)


class Boasting(ApexSpec):
    @hookimpl
    def apex_sandboxes(self, add: Any) -> None:
        add("boaster", Boaster)


@pytest.mark.slow
def test_what_a_sandbox_says_of_itself_is_not_believed() -> None:
    (finding,) = sandboxes(load_plugins(plugins=[Boasting()]).catalog, "boaster")
    assert finding.grade is Grade.WARN and "read_canary" in finding.found
    assert finding.remedy.endswith("do not rely on it")


def test_it_does_not_go_with_a_backend(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--security", "--backend", "repair"]) == 2
    assert "leave one of them out" in capsys.readouterr().err


def told(*folders: Path, **environ: str) -> dict[str, Finding]:
    """What is found in these folders of a Python, by its name."""
    places = [str(folder) for folder in folders]
    return {finding.what: finding for finding in started_code(places, path=places, environ=environ)}


def test_nothing_is_said_where_nothing_runs_by_itself(tmp_path: Path) -> None:
    (tmp_path / "paths.pth").write_text("/somewhere\n# import nothing\n")
    found = told(tmp_path, tmp_path / "absent")
    assert len(found) == 3 and all(finding.grade is Grade.OK for finding in found.values())


def test_every_pth_file_with_code_is_named(tmp_path: Path) -> None:
    (tmp_path / "paths.pth").write_text("/somewhere\n")
    for number in range(9):
        (tmp_path / f"evil{number}.pth").write_text("/somewhere\nimport os; os.getpid()\n", encoding="utf-8-sig")
    (tmp_path / "folder.pth").mkdir()
    finding = told(tmp_path)["code at every start"]
    assert finding.grade is Grade.WARN and "paths.pth" not in finding.found and "folder.pth" in finding.found
    assert all(f"evil{number}.pth (import os; os.getpid())" in finding.found for number in range(9))


@pytest.mark.parametrize("name", ["sitecustomize", "usercustomize"])
def test_modules_that_run_at_the_start_are_named_and_not_run(tmp_path: Path, name: str) -> None:
    canary = tmp_path / "ran"
    (tmp_path / f"{name}.py").write_text(f"open({str(canary)!r}, 'w')")
    finding = told(tmp_path)["modules at every start"]
    assert finding.grade is Grade.WARN and finding.found == str(tmp_path / f"{name}.py") and not canary.exists()


@pytest.mark.parametrize("name", ["PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME"])
def test_variables_that_put_code_first_are_named(tmp_path: Path, name: str) -> None:
    finding = told(tmp_path, **{name: "/evil\x1b[2J"})["variables of Python"]
    assert finding.grade is Grade.WARN and finding.found == f"{name}=/evil?[2J"


def test_what_is_named_is_what_a_start_runs(tmp_path: Path) -> None:
    """A control: this Python does run all of it, unless it is started as task code is."""
    canary = tmp_path / "ran"
    (tmp_path / "sitecustomize.py").write_text(f"open({str(canary)!r}, 'w').close()")
    command = [sys.executable, "-c", "pass"]
    subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, check=True, timeout=60)
    assert canary.exists() and told(tmp_path)["modules at every start"].grade is Grade.WARN
    canary.unlink()
    subprocess.run([command[0], "-I", "-S", *command[1:]], env={"PYTHONPATH": str(tmp_path)}, check=True, timeout=60)
    assert not canary.exists()
