"""Where episodes are run is remembered by the run, and is no part of its plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from apex_framework.cli.boundary import run
from apex_framework.cli.running import executor_of
from apex_framework.episode.arm import Arm
from apex_framework.experiment.artifacts import RunFolder
from apex_framework.experiment.plan import Plan, PlannedTask


@pytest.mark.parametrize(
    ("config", "expected"), [({"executor": "cluster:address=h:1"}, "cluster:address=h:1"), ({}, "local")]
)
def test_a_run_goes_on_where_it_was_begun(tmp_path: Path, config: dict[str, str], expected: str) -> None:
    plan = Plan("mini", "dev", "digest", (PlannedTask("a"),), (Arm("single"),))
    with RunFolder.create(tmp_path / "run", plan, config=config) as folder:
        assert executor_of(folder) == expected
    assert "executor" not in plan.to_json()["settings"]


@pytest.mark.parametrize("more", [[], ["--plan"]])
def test_an_unknown_executor_leaves_no_run_behind_and_is_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert run(["run", "--executor", "lokal", "--episodes", "1", "--no-baselines", "--out", "runs/a", *more]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "error[E0201]: unknown executor 'lokal'",
        "  did you mean 'local'?",
    ]
    assert not (tmp_path / "runs" / "a").exists()
