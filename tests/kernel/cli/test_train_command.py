"""``apex train`` keeps to the split that is for training, and to what was set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_world import Terminal

from apex_framework.cli.train import train


@pytest.fixture
def trained(apex: Terminal) -> Any:
    """Runs ``apex train`` with these arguments: status, the policy's story, stderr."""
    import fake_episodes

    apex.world.work, apex.world.inline = fake_episodes.taught, True

    def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
        status, _, err = apex(train, "--backend", "scripted", "--round", "8", "--out", "p.npz", *arguments)
        story = Path("p.json")
        return status, json.loads(story.read_text())["about"] if story.exists() else {}, err

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
