"""Workspaces in containers, against a program that keeps the contract of the Docker command line. No real engine is asked."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apex_framework.errors import EnvironmentProblem, WorkspaceError
from apex_framework.git import Repository
from apex_framework.interfaces import HasGit, Task
from apex_framework.plugins import load_plugins
from apex_workspaces import docker
from apex_workspaces.containers import ContainerWorkspaces

IMAGE = "some.registry/eval.project__1:latest"
RUN: Mapping[str, Any] = {"runner": "command", "image": IMAGE, "command": ["sh", "-c", 'sh check.sh "$0"', "{test}"]}
TASK = Task("t1", "s", "dev", "issue", "c", repo="project/project", base_commit="0" * 40, run={**RUN, "tests": ["one"]})


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, tools = tmp_path / "engine", tmp_path / "tools"
    tree = home / "images" / IMAGE.replace("/", "__").replace(":", "__") / "testbed"
    (tree / ".git").mkdir(parents=True)
    (tree / ".git/future").write_text("what came later")
    (tree / "check.sh").write_text('echo "told $1"; grep -q right answer.txt\n')
    (tree / "answer.txt").write_text("wrong\n")
    os.symlink("answer.txt", tree / "link.txt")
    tools.mkdir()
    program = tools / "docker"
    source = Path(__file__).with_name("stand_in_docker.py").read_text()
    program.write_text(source.replace("#!/usr/bin/env python3", f"#!{sys.executable} -I", 1))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return home


@pytest.fixture
def provider(stand_in: Path) -> Iterator[ContainerWorkspaces]:
    made = load_plugins().catalog.make("workspace", "swebench")
    yield made
    made.close()
    assert containers(stand_in) == []


def containers(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "containers").glob("*"))


def runs(home: Path) -> list[dict[str, list[str]]]:
    return [json.loads(line) for line in (home / "runs").read_text().splitlines()]


def test_a_task_is_worked_on_and_judged(provider: ContainerWorkspaces, stand_in: Path) -> None:
    workspace = provider.create(TASK)
    assert sorted(p.name for p in workspace.root.iterdir()) == ["answer.txt", "check.sh", "link.txt"]
    (first,) = workspace.run_tests().outcomes
    assert (first.id, first.status) == ("one", "failed")
    assert "status 1\ntold one" in first.detail
    (workspace.root / "answer.txt").write_text("right\n")
    assert workspace.run_tests().passed == 1
    assert "-wrong\n+right\n" in workspace.diff()
    fork = workspace.fork()
    workspace.rollback()
    assert workspace.run_tests().passed == 0
    assert fork.run_tests(overlay={"answer.txt": "wrong\n"}).passed == 0
    assert fork.run_tests().passed == 1
    assert containers(stand_in) == []


def test_it_has_a_repository_without_the_images_history(provider: ContainerWorkspaces) -> None:
    workspace = provider.create(TASK)
    assert isinstance(workspace, HasGit)
    made = Repository(workspace.git_dir)
    assert [c.parents for c in made.log()] == [()]
    assert [e.path for e in made.entries("HEAD")] == ["answer.txt", "check.sh", "link.txt"]


def test_a_run_is_confined_by_the_engine(provider: ContainerWorkspaces, stand_in: Path) -> None:
    workspace = provider.create(replace(TASK, run={**TASK.run, "memory": 1 << 30, "processes": 17, "disk": 1 << 20}))
    workspace.run_tests()
    (given,) = runs(stand_in)
    assert {"--rm", "--init", "--read-only"} <= given.keys()
    assert given["--network"] == ["none"]
    assert given["--cap-drop"] == ["ALL"]
    assert given["--security-opt"] == ["no-new-privileges"]
    assert given["--memory"] == given["--memory-swap"] == [str(1 << 30)]
    assert given["--pids-limit"] == ["17"]
    assert f"fsize={1 << 20}" in given["--ulimit"]
    assert given["--user"] == [f"{os.getuid()}:{os.getgid()}"]
    (mount,) = given["--mount"]
    assert mount.endswith("target=/testbed")
    assert str(workspace.root) not in mount, "tests run on a copy"


ENDS = {
    "stops nothing": ("exit 0", "passed", ""),
    "a status": ("echo why; exit 3", "failed", "status 3\nwhy"),
    "sleeps": ("sleep 1000", "timeout", "time was over"),
    "prints without end": ("yes", "timeout", "printed more than 100,000 bytes"),
    "fills the disk": ("cat /dev/zero > big & sleep 1000", "timeout", "wrote more than"),
    "kills itself": ("kill -9 $$", "error", "signal 9"),
    "deletes the workspace": ("rm -r ./*; exit 1", "failed", ""),
}


@pytest.mark.parametrize(("script", "status", "detail"), ENDS.values(), ids=ENDS)
def test_every_run_ends_typed_and_leaves_no_container(
    provider: ContainerWorkspaces, stand_in: Path, script: str, status: str, detail: str
) -> None:
    limits = {"most_output": 100_000, "disk": 32 << 20}
    workspace = provider.create(replace(TASK, run={**RUN, **limits, "command": ["sh", "-c", script]}))
    (outcome,) = workspace.run_tests(timeout_s=3.0 if script.startswith("sleep") else 60.0).outcomes
    assert (outcome.status, detail in outcome.detail) == (status, True), outcome
    assert containers(stand_in) == []
    assert sorted(p.name for p in workspace.root.iterdir()) == ["answer.txt", "check.sh", "link.txt"]


def test_a_command_that_is_not_there_is_an_error(provider: ContainerWorkspaces) -> None:
    (outcome,) = provider.create(replace(TASK, run={**RUN, "command": ["/nonexistent"]})).run_tests().outcomes
    assert outcome.status == "error"
    assert "cannot be started" in outcome.detail


def test_an_engine_that_fails_is_no_verdict(provider: ContainerWorkspaces, stand_in: Path) -> None:
    workspace = provider.create(TASK)
    shutil.rmtree(stand_in / "images")
    with pytest.raises(WorkspaceError, match="cannot be run"):
        workspace.run_tests()


@pytest.mark.parametrize(
    ("run", "word"),
    [
        ({"image": "absent:1"}, "no image absent:1 here"),
        ({"image": ""}, "names no image"),
        ({"image": "--privileged"}, "names no image"),
        ({"image": "a b"}, "no such value"),
        ({"testbed": "relative"}, "no folder of an image"),
        ({"testbed": "/nonexistent"}, "cannot be copied out"),
        ({"runner": "pytest", "command": []}, "by a command"),
        ({"packages": ["x"]}, "cannot be changed"),
        ({"imagine": "x"}, "no entry 'imagine'"),
    ],
)
def test_bad_tasks_are_one_line_and_leave_nothing(
    provider: ContainerWorkspaces, stand_in: Path, run: dict[str, object], word: str
) -> None:
    with pytest.raises(WorkspaceError, match=word) as caught:
        provider.create(replace(TASK, run={**TASK.run, **run}))
    assert "\n" not in str(caught.value)
    assert containers(stand_in) == []
    assert list(provider.held.iterdir()) == []


def test_without_an_engine_it_is_one_line_with_status_3(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = load_plugins().catalog.make
    (stand_in / "stopped").touch()
    with pytest.raises(EnvironmentProblem, match="no Docker engine answers: Cannot connect") as caught:
        make("workspace", "swebench")
    assert (caught.value.exit_status, str(caught.value).count("\n")) == (3, 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="no program 'docker' here") as caught:
        make("workspace", "swebench")
    assert caught.value.exit_status == 3
    assert list(tmp_path.glob("apex-ws-*")) == []


def test_containers_of_a_killed_host_are_removed_by_the_next(stand_in: Path, tmp_path: Path) -> None:
    alive = ContainerWorkspaces()
    left(tmp_path / "apex-ws-999999999-x", "apex-dead")
    left(alive.held, "apex-alive")
    ContainerWorkspaces().close()
    assert containers(stand_in) == ["apex-alive"]
    alive.close()
    assert docker.Engine().sweep() == ["apex-alive"]
    assert containers(stand_in) == []


def test_containers_of_another_machine_are_left_alone(stand_in: Path) -> None:
    left(Path("/nonexistent"), "apex-theirs", "another")
    assert docker.Engine().sweep() == []
    assert containers(stand_in) == ["apex-theirs"]


def left(held: Path, name: str, machine: str = platform.node()) -> None:
    labels = ["--label", f"apex-framework.machine={machine}", "--label", f"apex-framework.scratch={held}"]
    command = ["docker", "create", "--name", name, *labels, "--pull", "never", IMAGE]
    subprocess.run(command, check=True, capture_output=True)
