"""``apex suite make`` says how far it is without a line for every fault."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from apex_framework.cli.boundary import run
from apex_framework.errors import EnvironmentProblem
from apex_suites.synth import command
from apex_suites.synth.making import Made, Wanted


def test_a_line_tells_each_new_task_and_every_tenth_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(wanted: Wanted, provider: Any, progress: Any) -> Made:
        for tried in range(1, 26):
            progress(0 if tried < 3 else 1 if tried < 17 else 2, wanted.count, tried)
        return Made(2, 25, 0, {})

    monkeypatch.setattr(command, "make", make)
    flags = ["--out", str(tmp_path / "x.jsonl"), "--count", "2", "--allow-weaker-sandbox"]
    assert run(["suite", "make", str(tmp_path), *flags]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "faults tried" in line]
    assert told == [f"{done} of 2 tasks, {tried} faults tried" for done, tried in ((1, 3), (1, 10), (2, 17), (2, 20))]


def test_without_pytest_nothing_is_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EnvironmentProblem, match="under pytest") as caught:
        command._check(Wanted(tmp_path, "a/b", tmp_path / "x.jsonl"))
    assert caught.value.remedy == f"{sys.executable} -m pip install pytest"
