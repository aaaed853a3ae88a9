"""The run folder: never half-written, never shared, honest about damage."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from apex_framework.episode.arm import Arm
from apex_framework.errors import ArtifactError, PlanChangedError, RunFolderError
from apex_framework.experiment.artifacts import RunFolder, read_plan
from apex_framework.experiment.layout import file_name
from apex_framework.experiment.lines import key_of, read_rows
from apex_framework.experiment.lock import FolderLock
from apex_framework.experiment.manifest import verify_manifest
from apex_framework.experiment.plan import Plan
from apex_framework.interfaces import EpisodeJob

MakePlan = Callable[..., Plan]


def test_the_plan_comes_back_as_it_was_written(tmp_path: Path, make_plan: MakePlan) -> None:
    plan = make_plan(arms=(Arm("a", controller_options={"x": [1.5, None]}),))
    RunFolder.create(tmp_path / "r", plan, config={"budget": 10_000, "backend": {"*": "repair"}, "out": None}).close()
    assert read_plan(tmp_path / "r") == plan
    assert read_plan(tmp_path / "r").digest == plan.digest
    config = tomllib.loads((tmp_path / "r/config.toml").read_text())
    assert config == {"budget": 10_000, "backend": {"*": "repair"}}


def test_an_unwritable_folder_is_refused_before_anything(tmp_path: Path, make_plan: MakePlan) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError) as caught:
        RunFolder.create(tmp_path / "file" / "r", make_plan())
    assert caught.value.code == "E0302"
    assert (tmp_path / "file").read_bytes() == b""


def test_a_disk_that_fails_leaves_no_run_behind(tmp_path: Path, make_plan: MakePlan) -> None:
    class FullDisk:
        def append(self, path: Path, data: bytes, *, sync: bool) -> None:
            raise OSError(28, "No space left on device")

        def replace(self, path: Path, data: bytes) -> None:
            if path.name == "run.json":
                raise OSError(28, "No space left on device")
            path.write_bytes(data)

    with pytest.raises(RunFolderError, match="No space left"):
        RunFolder.create(tmp_path / "r", make_plan(), files=FullDisk())
    assert not (tmp_path / "r").exists()
    (tmp_path / "mine").mkdir()
    with pytest.raises(RunFolderError, match="No space left"):
        RunFolder.create(tmp_path / "mine", make_plan(), files=FullDisk())
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_strangers_folder_is_refused(tmp_path: Path, make_plan: MakePlan) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunFolderError, match=r"not empty.*thesis\.tex"):
        RunFolder.create(tmp_path, make_plan())
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", [".git/HEAD", ".env", "config.toml", ".lock"])
def test_a_folder_with_anything_in_it_is_refused_and_left_alone(tmp_path: Path, make_plan: MakePlan, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(RunFolderError, match=rf"not empty.*\({re.escape(name.split('/')[0])}\)"):
        RunFolder.create(tmp_path, make_plan())
    assert [p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_an_empty_folder_and_one_with_only_a_lock_file_are_taken(tmp_path: Path, make_plan: MakePlan) -> None:
    FolderLock(tmp_path).release()
    assert [p.name for p in tmp_path.iterdir()] == [".lock"]
    RunFolder.create(tmp_path, make_plan()).close()
    assert read_plan(tmp_path) == make_plan()


def test_a_discarded_run_takes_only_its_own_files_along(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType
) -> None:
    plan = make_plan()
    (tmp_path / "mine").mkdir()
    for name, left in (("new", None), ("mine", []), ("shared", ["episodes/notes.txt"])):
        folder = RunFolder.create(tmp_path / name, plan)
        folder.add(fake_episodes.work(next(plan.jobs())))
        if left:
            (tmp_path / name / left[0]).write_text("mine")
        folder.discard()
        folder.close()
        found = [p.relative_to(tmp_path / name).as_posix() for p in (tmp_path / name).rglob("*") if p.is_file()]
        assert found == (left or [])
        assert (tmp_path / name).exists() == (left is not None)


def test_a_folder_in_use_names_its_holder(tmp_path: Path, make_plan: MakePlan) -> None:
    RunFolder.create(tmp_path / "r", make_plan()).close()
    program = (
        "import sys\nfrom pathlib import Path\nfrom apex_framework.experiment.artifacts import RunFolder\n"
        "folder = RunFolder.reopen(Path(sys.argv[1]))\nprint('open', flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "r")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(RunFolderError, match=f"in use by process {holder.pid} on "):
            RunFolder.reopen(tmp_path / "r")
        holder.kill()
    RunFolder.reopen(tmp_path / "r").close()


def test_a_torn_line_is_cut_at_every_byte(tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType) -> None:
    plan = make_plan()
    jobs = list(plan.jobs())
    with RunFolder.create(tmp_path / "r", plan) as folder:
        folder.add(fake_episodes.work(jobs[0]))
        whole = (folder.path / "episodes.jsonl").read_bytes()
        folder.add(fake_episodes.work(jobs[1]))
        both = (folder.path / "episodes.jsonl").read_bytes()
    for size in range(len(whole), len(both), 7):
        (tmp_path / "r/episodes.jsonl").write_bytes(both[:size])
        with RunFolder.reopen(tmp_path / "r") as folder:
            assert list(folder.records) == plan.keys()[:1]
        assert (tmp_path / "r/episodes.jsonl").read_bytes() == whole


def test_side_rows_of_unfinished_episodes_are_dropped(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType
) -> None:
    plan = make_plan()
    with RunFolder.create(tmp_path / "r", plan) as folder:
        folder.add(fake_episodes.work(next(plan.jobs())))
    before = (tmp_path / "r/calls.jsonl").read_bytes()
    arm, task_id, seed = plan.keys()[1]
    stray = f'{{"arm":"{arm}","task_id":"{task_id}","seed":{seed},"tokens_in":1}}\n'
    (tmp_path / "r/calls.jsonl").write_bytes(before + stray.encode() + b'{"arm":')
    with RunFolder.reopen(tmp_path / "r"):
        assert (tmp_path / "r/calls.jsonl").read_bytes() == before


def test_damage_in_the_middle_is_named_and_refused(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType
) -> None:
    plan = make_plan()
    with RunFolder.create(tmp_path / "r", plan) as folder:
        for job in list(plan.jobs())[:2]:
            folder.add(fake_episodes.work(job))
    lines = (tmp_path / "r/episodes.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "r/episodes.jsonl").write_bytes(b"{]\n" + lines[1])
    with pytest.raises(ArtifactError, match="line 1"):
        RunFolder.reopen(tmp_path / "r")


def test_an_edited_plan_is_refused(tmp_path: Path, make_plan: MakePlan) -> None:
    RunFolder.create(tmp_path / "r", make_plan()).close()
    text = (tmp_path / "r/run.json").read_text()
    (tmp_path / "r/run.json").write_text(text.replace('"budget": 10000', '"budget": 20000', 1))
    with pytest.raises(ArtifactError, match="edited"):
        RunFolder.reopen(tmp_path / "r")


def test_a_changed_plan_names_what_differs(make_plan: MakePlan) -> None:
    plan = make_plan()
    plan.require_same(make_plan())
    with pytest.raises(PlanChangedError, match=r"suite_digest: .*d1.*d2") as caught:
        plan.require_same(make_plan(suite_digest="d2"))
    assert "versions" not in str(caught.value)


@pytest.mark.parametrize("name", [".", "..", "a/b", "../../etc", "ü", "schedule:star,chain,flat"])
def test_names_stay_inside_the_folder(name: str) -> None:
    assert os.sep not in file_name(name)
    assert file_name(name) not in {".", ".."}


def test_failed_episodes_lose_all_their_rows_when_tried_again(
    tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType
) -> None:
    plan = make_plan()
    results = [fake_episodes.work(job) for job in plan.jobs()]
    failed = {**results[1].record, "status": "infrastructure", "reason": "no luck"}
    with RunFolder.create(tmp_path / "r", plan) as folder:
        for result in (results[0], replace(results[1], record=failed), *results[2:]):
            folder.add(result)
        folder.finish()
    with RunFolder.reopen(tmp_path / "r", retry_failed=True) as folder:
        assert set(plan.keys()) - set(folder.records) == {key_of(failed)}
        assert not (tmp_path / "r/DONE").exists()
        for name in ("episodes.jsonl", "decisions.jsonl", "switches.jsonl", "calls.jsonl"):
            assert {key_of(row) for row in read_rows(tmp_path / "r" / name)} == set(folder.records)
        folder.add(results[1])
        folder.finish()
    assert len(read_rows(tmp_path / "r/calls.jsonl")) == sum(len(result.calls) for result in results)


def test_a_changed_run_is_not_tried_again(tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType) -> None:
    with RunFolder.create(tmp_path / "r", make_plan()) as folder:
        for job in make_plan().jobs():
            result = fake_episodes.work(job)
            folder.add(replace(result, record={**result.record, "status": "infrastructure"}))
        folder.finish()
    with open(tmp_path / "r/calls.jsonl", "ab") as file:
        file.write(b"{}\n")
    with pytest.raises(ArtifactError, match="changed after the run"):
        RunFolder.reopen(tmp_path / "r", retry_failed=True)
    assert (tmp_path / "r/DONE").exists()


@pytest.fixture
def ended(tmp_path: Path, make_plan: MakePlan, fake_episodes: ModuleType) -> Path:
    """A finished run whose manifest is gone, as when it was stopped between LINES and DONE."""
    with RunFolder.create(tmp_path / "r", make_plan()) as folder:
        for job in make_plan().jobs():
            folder.add(fake_episodes.work(job))
        folder.finish()
    (tmp_path / "r/DONE").unlink()
    return tmp_path / "r"


def test_a_run_stopped_before_its_manifest_goes_on(ended: Path) -> None:
    before = {path: path.read_bytes() for path in ended.rglob("*.jsonl")}
    with RunFolder.reopen(ended) as folder:
        folder.finish()
    verify_manifest(ended)
    assert {path: path.read_bytes() for path in ended.rglob("*.jsonl")} == before


@pytest.mark.parametrize("name", ["episodes.jsonl", "decisions.jsonl", "calls.jsonl"])
def test_a_line_that_was_changed_under_a_lost_manifest_is_named_and_refused(ended: Path, name: str) -> None:
    lines = (ended / name).read_bytes().splitlines(keepends=True)
    before = (ended / "LINES").read_bytes()
    (ended / name).write_bytes(b"".join([lines[0], lines[1].replace(b"}", b',"more":1}'), *lines[2:]]))
    with pytest.raises(ArtifactError, match=rf"{name}:2 was changed after the run"):
        RunFolder.reopen(ended)
    with pytest.raises(ArtifactError, match=rf"{name}:2 was changed after the run"):
        RunFolder.reopen(ended, retry_failed=True)
    assert (ended / "LINES").read_bytes() == before


def test_rows_of_finished_episodes_that_are_gone_are_refused(ended: Path) -> None:
    lines = (ended / "calls.jsonl").read_bytes().splitlines(keepends=True)
    (ended / "calls.jsonl").write_bytes(b"".join(lines[:-1]))
    with pytest.raises(ArtifactError, match=rf"calls.jsonl:{len(lines)} is missing after the run"):
        RunFolder.reopen(ended)


@pytest.mark.parametrize("size", [0, 9, 40, -1])
def test_what_is_left_of_a_torn_list_of_lines_refuses_no_run(ended: Path, size: int) -> None:
    (ended / "LINES").write_bytes((ended / "LINES").read_bytes()[:size])
    with RunFolder.reopen(ended) as folder:
        folder.finish()
    verify_manifest(ended)


def test_a_run_that_goes_on_and_is_stopped_again_goes_on(ended: Path, fake_episodes: ModuleType) -> None:
    planned = [key_of(row) for row in read_rows(ended / "episodes.jsonl")]
    lines = (ended / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (ended / "episodes.jsonl").write_bytes(b"".join(lines[1:2]))
    with pytest.raises(ArtifactError, match=r"episodes.jsonl:1 was changed"):
        RunFolder.reopen(ended)
    (ended / "episodes.jsonl").write_bytes(b"".join(lines[:1]))
    for _ in range(2):  # results come in any order, and here nobody puts them into the plan's
        folder = RunFolder.reopen(ended)
        folder.add(fake_episodes.work(unfinished(folder)[-1]))
        folder._lock.release()
    with RunFolder.reopen(ended) as folder:
        for job in unfinished(folder):
            folder.add(fake_episodes.work(job))
        folder.finish()
    verify_manifest(ended)
    assert [key_of(row) for row in read_rows(ended / "episodes.jsonl")] == planned


def unfinished(folder: RunFolder) -> list[EpisodeJob]:
    return [job for job in folder.plan.jobs() if (job.arm["name"], job.task_id, job.seed) not in folder.records]
