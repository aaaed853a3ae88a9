"""Patches in a run folder, and in predictions made of it, are what the team changed: byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from apex_framework.errors import ArtifactError
from apex_framework.experiment.artifacts import RunFolder
from apex_framework.experiment.plan import Plan
from apex_framework.experiment.summary import write_predictions

PATCH = "--- a/caf\udce9\r\n+\u2028\n"


def test_a_patch_keeps_its_ends_of_lines_and_letters_that_are_no_utf8(
    tmp_path: Path, make_plan: Callable[..., Plan], fake_episodes: ModuleType
) -> None:
    plan = make_plan()
    with RunFolder.create(tmp_path / "r", plan) as folder:
        done = set()
        for job in plan.jobs():
            folder.add(replace(fake_episodes.work(job), patch=PATCH))
            done.add((job.arm["name"], job.task_id, job.seed))
        write_predictions(folder)
        assert {(folder.episode_path(key) / "patch.diff").read_bytes() for key in done} == {
            b"--- a/caf\xe9\r\n+\xe2\x80\xa8\n"
        }
    files = sorted((tmp_path / "r" / "predictions").iterdir())
    rows = [json.loads(line) for file in files for line in file.read_bytes().decode("ascii").splitlines()]
    assert {row["model_patch"] for row in rows} == {PATCH}
    assert len({row["model_name_or_path"] for row in rows}) == len(files) == len(plan.arms) * len(plan.seeds)


def test_a_finished_episode_whose_patch_is_gone_is_refused_and_no_empty_prediction(
    tmp_path: Path, make_plan: Callable[..., Plan], fake_episodes: ModuleType
) -> None:
    plan = make_plan()
    with RunFolder.create(tmp_path / "r", plan) as folder:
        for job in plan.jobs():
            folder.add(fake_episodes.work(job))
        gone = folder.episode_path(plan.keys()[3]) / "patch.diff"
        gone.unlink()
        with pytest.raises(ArtifactError) as caught:
            folder.finish()
    assert caught.value.cause == f"{gone} is missing, and its episode is finished"
    assert not (tmp_path / "r" / "DONE").exists()
