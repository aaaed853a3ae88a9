"""``apex run`` says which of its controllers is untrained, before it runs and in what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apex_executors.local import LocalExecutor
from apex_framework.cli import boundary
from apex_framework.cli.context import Context
from apex_framework.cli.run import run
from apex_framework.hookspecs import ApexSpec, hookimpl
from apex_framework.interfaces import Task
from apex_framework.plugins import load_plugins


class FakeSuite:
    """Four tasks per split; nothing is ever worked on or graded here."""

    name, digest = "fake", "d1"

    def __init__(self, **_options: object) -> None: ...

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"{split}-{i}", "fake", split, "broken", cluster=f"c{i}") for i in range(4)]

    def workspaces(self) -> None: ...

    def grade(self, task: Task, workspace: object) -> None: ...


class FakeWorld(ApexSpec):
    """A suite, and an executor whose episodes are the stand-ins of fake_episodes."""

    @hookimpl
    def apex_suites(self, add: Any) -> None:
        add("fake", FakeSuite)

    @hookimpl
    def apex_executors(self, add: Any) -> None:
        import fake_episodes

        class Executor(LocalExecutor):
            def run(self, jobs: Any, work: Any, *, workers: int) -> Any:
                return super().run(jobs, fake_episodes.work, workers=1)

        add("local", Executor)


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs ``apex run`` with these arguments: status, policies in run.json, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "experiment"))

    def make() -> Context:
        context = Context()
        context._plugins = load_plugins(block=("executors",), plugins={"world": FakeWorld()})
        return context

    monkeypatch.setattr("apex_framework.cli.context.Context", make)

    def go(*arguments: str) -> tuple[int, dict[str, str], str, str]:
        options = ("--suite", "fake/dev", "--backend", "scripted", "--episodes", "4", "--out", "r")
        status = boundary.run([*options, *arguments], run)
        out, err = capsys.readouterr()
        return status, json.loads(Path("r/run.json").read_text())["plan"]["policies"], out, err

    return go


def test_an_untrained_controller_is_told_before_the_run_recorded_and_reported(ran: Any) -> None:
    status, policies, out, err = ran("--topology-set", "star,flat")
    assert status == 0, err
    line = (
        "controller bandit_v1 has no trained policy for star,flat: it is untrained; apex train --topology-set star,flat"
    )
    assert err.splitlines()[0] == line
    assert policies == {"bandit_v1": "untrained"}
    assert "bandit_v1 was untrained" in out
    assert "bandit_v1 was untrained" in Path("r/report/report.md").read_text()


def test_the_shipped_policy_serves_its_topologies_in_any_order(ran: Any) -> None:
    status, policies, out, err = ran("--topology-set", "flat,star,chain")
    assert status == 0, err
    assert len(policies["bandit_v1"]) == 64
    assert "is untrained" not in err and "was untrained" not in out
