"""The history of a checkout for the ``git`` tools: its base commit, nothing before or after it, and what is committed since."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apex_framework.git import Repository
from apex_framework.interfaces import Capability, HasGit, Task, ToolCall, ToolResult, ToolServer, Workspace
from apex_framework.interfaces import WorkspaceProvider as Provider
from apex_framework.plugins import load_plugins

Ask = Callable[..., ToolResult]


@pytest.fixture(scope="module")
def make() -> Callable[..., Any]:
    return load_plugins().catalog.make


@pytest.fixture(params=["checkout", "uv"])
def provider(request: pytest.FixtureRequest, make: Callable[..., Any], tmp_path: Path) -> Iterator[Provider]:
    options = {"cache": tmp_path / "cache"} if request.param == "uv" else {}
    made: Provider = make("workspace", request.param, **options)
    yield made
    made.close()


@pytest.fixture
def ask(make: Callable[..., Any]) -> Iterator[Callable[..., ToolResult]]:
    server: ToolServer = make("tool", "git")

    def go(workspace: Workspace, tool: str, **arguments: object) -> ToolResult:
        capability = Capability(workspace, frozenset())
        return asyncio.run(server.call(ToolCall(f"git.{tool}", arguments, capability)))

    yield go
    asyncio.run(server.close())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    for text in ("past", "base", "future"):
        (folder / "m.txt").write_text(f"{text}\n")
        (folder / f"{text}.txt").write_text(f"secret of the {text}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"the {text}")
    return folder


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def task(folder: Path | None, commit: str = "", **files: str) -> Task:
    repo = str(folder) if folder else ""
    return Task("t", "s", "dev", "i", "c", repo=repo, base_commit=commit, files=files, run={"runner": "unittest"})


def test_history_is_the_base_commit_alone(provider: Provider, ask: Ask, repository: Path) -> None:
    base, past = git(repository, "rev-parse", "HEAD~1"), git(repository, "rev-parse", "HEAD~2")
    workspace = provider.create(task(repository, base))
    assert isinstance(workspace, HasGit)
    assert workspace.base_commit == base
    assert workspace.root not in workspace.git_dir.parents
    told = ask(workspace, "log").value
    assert [(c["commit"], c["message"]) for c in told["commits"]] == [(base, "the base")]
    theirs = {line.split()[0] for line in git(repository, "rev-list", "--objects", "--all", f"^{base}").splitlines()}
    theirs |= set(git(repository, "rev-parse", past, f"{past}:m.txt", f"{past}^{{tree}}").split())
    assert len(theirs) > 3
    assert Repository(workspace.git_dir).beyond(base) & theirs == set()
    for other in (git(repository, "rev-parse", "HEAD"), past):
        assert ask(workspace, "show", revision=other).error == "E_REF"
    assert not (workspace.root / ".git").exists()


def test_what_was_changed_is_seen_and_committed(provider: Provider, ask: Ask, repository: Path) -> None:
    workspace = provider.create(task(repository, git(repository, "rev-parse", "HEAD~1")))
    assert ask(workspace, "status").value["changed"] == []
    (workspace.root / "m.txt").write_text("changed\n")
    assert "+changed" in ask(workspace, "diff").value["diff"]
    assert ask(workspace, "commit", message="mine").ok
    assert len(ask(workspace, "log").value["commits"]) == 2
    fork = workspace.fork()
    (fork.root / "m.txt").write_text("in the fork\n")
    assert ask(fork, "commit", message="the fork's").ok
    assert len(ask(fork, "log").value["commits"]) == 3
    assert len(ask(workspace, "log").value["commits"]) == 2
    assert ask(fork, "status").value["base"] == ask(workspace, "status").value["base"]


def test_files_of_the_task_are_a_commit_of_their_own(provider: Provider, ask: Ask, repository: Path) -> None:
    base = git(repository, "rev-parse", "HEAD~1")
    workspace = provider.create(task(repository, base, **{"m.txt": "the task's\n"}))
    assert isinstance(workspace, HasGit)
    told = ask(workspace, "log").value["commits"]
    assert [c["commit"] for c in told] == [workspace.base_commit, base]
    assert ask(workspace, "status").value["changed"] == []
    alone = provider.create(task(None, **{"a.txt": "x\n"}))
    assert len(ask(alone, "log").value["commits"]) == 1
    assert ask(alone, "status").value["changed"] == []


def test_nothing_of_it_is_left(provider: Provider, ask: Ask, repository: Path) -> None:
    workspace = provider.create(task(repository))
    assert isinstance(workspace, HasGit)
    before = sorted(workspace.root.parent.iterdir())
    fork = workspace.fork()
    assert isinstance(fork, HasGit)
    places = [workspace.git_dir, fork.git_dir]
    assert all(place.is_dir() for place in places) and places[0] != places[1]
    fork.dispose()
    assert not places[1].exists()
    workspace.dispose()
    assert not places[0].exists()
    assert sorted(workspace.root.parent.iterdir()) == [p for p in before if p not in (workspace.root, places[0].parent)]


def test_many_repositories_are_fetched_again_rather_than_kept(provider: Provider, ask: Ask, tmp_path: Path) -> None:
    workspaces = []
    for number in range(10):
        folder = tmp_path / f"r{number}"
        folder.mkdir()
        git(folder, "init", "-q")
        (folder / "n.txt").write_text(str(number))
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", str(number))
        workspaces.append(provider.create(task(folder)))
    messages = [ask(workspace, "log").value["commits"][0]["message"] for workspace in workspaces]
    assert messages == [str(number) for number in range(10)]
