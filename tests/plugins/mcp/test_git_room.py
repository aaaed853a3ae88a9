"""What the git tools keep is bounded, too: commits on branches, and those that nobody sees."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apex_framework.errors import ConfigError
from apex_framework.git import Repository
from apex_framework.interfaces import Capability, ToolCall, ToolResult
from apex_framework.testing.tool import FolderWorkspace
from apex_mcp import git_desk
from apex_mcp.git import GitServer

MOST = 1_000_000
PIECE = 200_000

Ask = Callable[..., ToolResult]


@pytest.fixture
def folder(tmp_path: Path) -> FolderWorkspace:
    (tmp_path / "w").mkdir()
    (tmp_path / "w/a").write_text("a\n")
    return FolderWorkspace(tmp_path / "w")


def asking(folder: FolderWorkspace, server: GitServer) -> Ask:
    held = Capability(folder, frozenset())
    return lambda tool, **given: asyncio.run(server.call(ToolCall(f"git.{tool}", given, held)))


def fill(ask: Ask, folder: FolderWorkspace, tool: str, **arguments: Any) -> tuple[int, str]:
    """Change a file and call a tool, again and again; after how many times it was refused, and with what."""
    noise = random.Random(7)
    for number in range(30):
        (folder.root / "a").write_bytes(noise.randbytes(PIECE))
        given = {**arguments, "message": str(number)} if tool == "commit" else arguments
        answer = ask(tool, **given)
        if not answer.ok:
            return number, answer.error
    return 30, ""


@pytest.mark.parametrize("tool", ["commit", "status", "diff"])
def test_a_repository_grows_by_what_it_may_and_one_commit(folder: FolderWorkspace, tool: str) -> None:
    server = GitServer(spec=f"repository_bytes={MOST}")
    ask = asking(folder, server)
    assert ask("log").ok
    times, code = fill(ask, folder, tool)
    assert code == "E_QUOTA" and MOST // PIECE - 1 <= times <= MOST // PIECE + 1
    with server._desks.desk(folder) as desk:
        assert git_desk._held(desk.git.git_dir) - desk._start <= MOST + 2 * PIECE
    assert ask("log").ok and ask("show").ok  # what is there can still be seen
    asyncio.run(server.close())


def test_branches_take_room_too(folder: FolderWorkspace) -> None:
    server = GitServer(repository_bytes=40_000)
    ask = asking(folder, server)
    codes = [ask("branch", name=f"b{number}").error for number in range(30)]
    assert codes[0] == "" and codes[-1] == "E_QUOTA"
    asyncio.run(server.close())


def test_what_a_workspace_brought_is_not_counted(folder: FolderWorkspace, tmp_path: Path) -> None:
    git = Repository.init(tmp_path / "git")
    (folder.root / "big").write_bytes(random.Random(1).randbytes(2 * MOST))
    folder.git_dir, folder.base_commit = git.git_dir, git.snapshot(folder.root, "base")  # type: ignore[attr-defined]  # it becomes one that has git
    git.set_branch("main", folder.base_commit)  # type: ignore[attr-defined]  # it becomes one that has git
    server = GitServer(repository_bytes=MOST)
    (folder.root / "a").write_text("b\n")
    assert asking(folder, server)("commit", message="one").ok
    asyncio.run(server.close())


def test_planted_a_desk_that_does_not_look_shows(folder: FolderWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_desk.Desk, "check_room", lambda self: None)
    server = GitServer(repository_bytes=MOST)
    ask = asking(folder, server)
    assert ask("log").ok and fill(ask, folder, "commit") == (30, "")
    asyncio.run(server.close())


@pytest.mark.parametrize(
    "spec", ["x", "networks=", "networks=home", "networks=10.0.0.1/8", "repository_bytes=-1", "repository_bytes=1e9"]
)
def test_settings_that_cannot_be_are_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="tool git"):
        GitServer(spec=spec)


def test_settings_as_text() -> None:
    made = GitServer(
        spec="networks=10.0.0.0/8 fd00::/8; quota_bytes=7; quota_files=8 ;repository_bytes=9;sources=/a /b"
    )
    found = made._settings
    assert [str(n) for n in found.networks] == ["10.0.0.0/8", "fd00::/8"] and [str(p) for p in found.sources] == [
        "/a",
        "/b",
    ]
    assert (found.quota_bytes, found.quota_files, found.repository_bytes) == (7, 8, 9)
