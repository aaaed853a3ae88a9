"""``apex train`` keeps to the split that is for training, and to what was set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apex_executors.local import LocalExecutor
from apex_framework.cli import boundary
from apex_framework.cli.context import Context
from apex_framework.cli.train import train
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
                return super().run(jobs, fake_episodes.taught, workers=1)

        add("local", Executor)


@pytest.fixture
def trained(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs ``apex train`` with these arguments: status, the policy's story, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "experiment"))

    def make() -> Context:
        context = Context()
        context._plugins = load_plugins(block=("executors",), plugins={"world": FakeWorld()})
        return context

    monkeypatch.setattr("apex_framework.cli.context.Context", make)

    def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
        status = boundary.run(["--backend", "scripted", "--round", "8", "--out", "p.npz", *arguments], train)
        story = Path("p.json")
        return status, json.loads(story.read_text())["about"] if story.exists() else {}, capsys.readouterr().err

    return run


def test_a_suite_without_a_split_means_its_training_split(trained: Any) -> None:
    status, about, err = trained("--suite", "fake", "--episodes", "4")
    assert status == 0, err
    assert about["suite"] == "fake/train"
    assert "any_split" not in about


@pytest.mark.parametrize("split", ["dev", "test"])
def test_other_splits_are_refused_unless_asked_for_and_then_recorded(trained: Any, split: str) -> None:
    status, about, err = trained("--suite", f"fake/{split}", "--episodes", "4")
    assert (status, about) == (2, {})
    assert f"fake/{split} is not for training" in err
    assert "--any-split" in err
    status, about, err = trained("--suite", f"fake/{split}", "--episodes", "4", "--any-split")
    assert status == 0, err
    assert (about["suite"], about["any_split"]) == (f"fake/{split}", True)


def test_a_file_and_the_environment_decide_what_no_flag_says(trained: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("apex.toml").write_text('suite = "fake"\nepisodes = 6\n')
    status, about, err = trained()
    assert status == 0, err
    assert (about["suite"], about["episodes"]) == ("fake/train", 6)
    monkeypatch.setenv("APEX_EPISODES", "5")
    assert trained()[1]["episodes"] == 5
    monkeypatch.setenv("APEX_SPLIT", "dev")
    assert trained()[0] == 2


def test_no_episodes_at_all_is_an_error(trained: Any) -> None:
    status, _, err = trained("--suite", "fake", "--episodes", "0")
    assert status == 2
    assert "--episodes" in err


def test_a_teacher_that_fits_is_found_for_other_topologies(trained: Any) -> None:
    status, about, err = trained("--suite", "fake", "--episodes", "4", "--topology-set", "star,flat")
    assert status == 0, err
    assert about["teacher"] == "random_switch"
