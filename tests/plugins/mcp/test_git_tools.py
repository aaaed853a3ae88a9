"""The git tools: a history that agents use and cannot reach, nothing of the workspace changed behind a refusal."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apex_framework.git import Repository
from apex_framework.interfaces import Capability, HasGit, ToolCall, ToolResult
from apex_framework.testing import check_tool
from apex_framework.testing.tool import FolderWorkspace
from apex_mcp.git import GitServer

Ask = Callable[..., ToolResult]


class Versioned(FolderWorkspace):
    """A folder that brings its own repository."""

    def __init__(self, root: Path, git_dir: Path) -> None:
        super().__init__(root)
        self.git_dir = git_dir
        made = Repository.init(git_dir)
        self.base_commit = made.snapshot(root, "from the provider")
        made.set_branch("work", self.base_commit)
        made.switch("work")


@pytest.fixture
def folder(tmp_path: Path) -> FolderWorkspace:
    root = tmp_path / "workspace"
    (root / "pkg").mkdir(parents=True)
    (root / "pkg/m.py").write_text("a = 1\nb = 2\nc = 3\nd = 4\ne = 5\n")
    (root / "README").write_text("read me\n")
    return FolderWorkspace(root)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    made = GitServer(sources=[tmp_path / "sources"])
    yield made
    asyncio.run(made.close())


@pytest.fixture
def git(folder: FolderWorkspace, server: GitServer) -> Ask:
    return asker(server, folder)


def asker(server: GitServer, workspace: FolderWorkspace, *scopes: str) -> Ask:
    capability = Capability(workspace, frozenset(), scopes=frozenset(scopes))

    def go(tool: str, **arguments: Any) -> ToolResult:
        arguments = {name.removesuffix("_"): value for name, value in arguments.items()}
        return asyncio.run(server.call(ToolCall(f"git.{tool}", arguments, capability)))

    return go


def change(folder: FolderWorkspace, path: str, old: str, new: str) -> None:
    file = folder.root / path
    file.write_text(file.read_text().replace(old, new))


def content(folder: FolderWorkspace) -> dict[str, bytes]:
    return {str(p.relative_to(folder.root)): p.read_bytes() for p in sorted(folder.root.rglob("*")) if p.is_file()}


def test_it_is_a_conforming_tool_server() -> None:
    check_tool(GitServer)


def test_change_look_commit_log_show(git: Ask, folder: FolderWorkspace) -> None:
    first = git("status").value
    assert first == {"branch": "main", "commit": first["base"], "base": first["base"], "changed": [], "partial": False}
    change(folder, "pkg/m.py", "b = 2", "b = 22")
    (folder.root / "new.txt").write_text("new\n")
    (folder.root / "pkg/__pycache__").mkdir()
    (folder.root / "pkg/__pycache__/x.pyc").write_bytes(b"\0")
    assert git("status").value["changed"] == [{"path": "new.txt", "kind": "A"}, {"path": "pkg/m.py", "kind": "M"}]
    assert "-b = 2\n+b = 22\n" in git("diff").value["diff"]
    assert "new.txt" not in git("diff", path="pkg").value["diff"]
    made = git("commit", message="two \x1b[2Jchanges").value
    assert made["branch"] == "main" and len(made["changed"]) == 2 and git("status").value["changed"] == []
    page = git("log", count=1).value
    assert page["commits"][0]["message"] == "two ?[2Jchanges" and page["next"] == 1
    assert git("log", skip=1).value["commits"][0]["commit"] == first["base"]
    assert [c["commit"] for c in git("log", path="new.txt").value["commits"]] == [made["commit"]]
    assert "+b = 22" in git("show").value["diff"]
    assert git("show", revision=first["base"]).value["paths"] == ["README", "pkg/m.py"]
    assert "b = 2\n" in git("show", revision=first["base"], path="pkg/m.py").value["text"]
    assert git("diff", from_=first["base"], to=made["commit"]).value["diff"] == git("show").value["diff"]
    assert git("commit", message="again").error == "E_EMPTY"
    assert not (folder.root / ".git").exists()


def test_branches_are_worked_on_and_merged(git: Ask, folder: FolderWorkspace) -> None:
    assert git("branch", name="side", switch=True).value["branch"] == "side"
    change(folder, "pkg/m.py", "e = 5", "e = 55")
    (folder.root / "side.txt").write_text("side\n")
    git("commit", message="on the side")
    there = content(folder)
    assert git("branch", name="main", switch=True).ok
    assert "e = 5\n" in (folder.root / "pkg/m.py").read_text() and not (folder.root / "side.txt").exists()
    change(folder, "pkg/m.py", "a = 1", "a = 11")
    assert git("merge", branch="side").error == "E_DIRTY"
    assert git("branch", name="side", switch=True).error == "E_DIRTY"
    head = git("commit", message="on main").value["commit"]
    merged = git("merge", branch="side").value
    assert merged["how"] == "merge" and git("status").value["changed"] == []
    text = (folder.root / "pkg/m.py").read_text()
    assert "a = 11" in text and "e = 55" in text and (folder.root / "side.txt").read_text() == "side\n"
    assert git("show").value["parents"][0] == head
    assert "side.txt" in git("show").value["diff"]
    assert git("merge", branch="side").value["how"] == "already"
    git("branch", name="side", switch=True)
    assert content(folder) == there
    assert git("merge", branch="main").value["how"] == "forward"


def test_a_conflict_changes_neither_files_nor_branches(git: Ask, folder: FolderWorkspace) -> None:
    git("branch", name="side", switch=True)
    change(folder, "README", "read", "side")
    git("commit", message="side")
    git("branch", name="main", switch=True)
    change(folder, "README", "read", "main")
    git("commit", message="main")
    before, status = content(folder), git("status").value
    refused = git("merge", branch="side")
    assert refused.error == "E_CONFLICT" and "README" in refused.detail
    assert content(folder) == before and git("status").value == status


def test_a_file_is_taken_back_from_a_commit(git: Ask, folder: FolderWorkspace) -> None:
    base = git("status").value["base"]
    change(folder, "README", "read", "write")
    git("commit", message="x")
    assert git("checkout", path="README", revision=base).ok
    assert (folder.root / "README").read_text() == "read me\n"
    assert git("checkout", path="none").error == "E_MISSING"


def test_what_agents_may_not_write_no_git_tool_writes(git: Ask, folder: FolderWorkspace) -> None:
    """A protected file that something else changed can be committed, and is not brought by branches or check-outs."""
    git("status")
    git("branch", name="side", switch=True)
    (folder.root / "conftest.py").write_text("evil\n")
    git("commit", message="x")
    (folder.root / "conftest.py").unlink()
    assert git("checkout", path="conftest.py").error == "E_PROTECTED"
    git("commit", message="y")
    assert (
        git("branch", name="old", revision=git("log").value["commits"][1]["commit"], switch=True).error == "E_PROTECTED"
    )
    assert "old" not in git("branch").value["branches"] and not (folder.root / "conftest.py").exists()


def test_a_link_in_the_workspace_is_never_written_through(git: Ask, folder: FolderWorkspace, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("outside")
    git("status")
    (folder.root / "README").unlink()
    (folder.root / "README").symlink_to(tmp_path / "outside")
    assert git("checkout", path="README").error == "E_SYMLINK"
    assert "outside" not in str(git("diff").value["diff"].replace(str(tmp_path / "outside"), ""))
    (folder.root / "pkg/m.py").rename(tmp_path / "m.py")
    (folder.root / "pkg").rmdir()
    (folder.root / "pkg").symlink_to(tmp_path)
    assert git("checkout", path="pkg/m.py").error == "E_SYMLINK"
    assert (tmp_path / "outside").read_text() == "outside"


BAD = [
    ("log", {"revision": "--output=/tmp/x"}, "E_REF"),
    ("log", {"revision": "HEAD..main"}, "E_REF"),
    ("log", {"revision": "a\nb"}, "E_REF"),
    ("log", {"revision": "none"}, "E_REF"),
    ("log", {"count": 0}, "E_ARG"),
    ("log", {"skip": -1}, "E_ARG"),
    ("diff", {"from": "-x"}, "E_REF"),
    ("diff", {"path": ":(top)/../x"}, "E_PATH"),
    ("diff", {"path": ":(top)../x"}, "E_MISSING"),
    ("diff", {"path": "none"}, "E_MISSING"),
    ("diff", {"path": ".git/config"}, "E_PROTECTED"),
    ("show", {"revision": "HEAD", "path": "../x"}, "E_PATH"),
    ("show", {"path": "/etc/passwd"}, "E_PATH"),
    ("show", {"path": ":/"}, "E_MISSING"),
    ("branch", {"name": "-d"}, "E_REF"),
    ("branch", {"name": "a..b"}, "E_REF"),
    ("branch", {"name": "main"}, "E_MOVED"),
    ("branch", {"switch": True}, "E_ARG"),
    ("branch", {"name": "x", "revision": "none"}, "E_REF"),
    ("commit", {"message": " "}, "E_ARG"),
    ("merge", {"branch": "--abort"}, "E_REF"),
    ("merge", {"branch": "none"}, "E_REF"),
    ("checkout", {"path": "../x"}, "E_PATH"),
    ("checkout", {"path": "a\0b"}, "E_ARG"),
    ("clone", {"source": "https://localhost/x", "path": "x"}, "E_PROTO"),
    ("clone", {"source": "ext::sh -c true", "path": "x"}, "E_PATH"),
    ("clone", {"source": "/etc", "path": "x"}, "E_PATH"),
    ("clone", {"source": "--upload-pack=x", "path": "x"}, "E_PATH"),
    ("nothing", {}, "E_TOOL"),
]


@pytest.mark.parametrize(("tool", "arguments", "code"), BAD, ids=[f"{t}-{list(a.values())}" for t, a, _ in BAD])
def test_bad_arguments_are_refused_and_change_nothing(
    git: Ask, folder: FolderWorkspace, tool: str, arguments: dict[str, Any], code: str
) -> None:
    before = content(folder)
    result = git(tool, **arguments)
    assert (result.ok, result.error) == (False, code), result
    assert content(folder) == before and "\n" not in result.detail


def source_in(place: Path) -> Path:
    source = place / "repo"
    made = Repository.init(source)
    files = place / "files"
    (files / "d").mkdir(parents=True)
    for name in ("d/x.py", "conftest.py", ".envrc"):
        (files / name).write_text(name)
    (files / "link").symlink_to("d")
    made.set_branch("main", made.snapshot(files, "x"))
    return source


def test_cloning_is_of_allowed_folders_and_brings_no_history(
    server: GitServer, folder: FolderWorkspace, tmp_path: Path
) -> None:
    git = asker(server, folder)
    source = source_in(tmp_path / "sources")
    done = git("clone", source=str(source), path="vendor/x").value
    assert (done["files"], done["left_out"]) == (1, [".envrc", "conftest.py", "link"])
    assert (folder.root / "vendor/x/d/x.py").read_text() == "d/x.py" and not (folder.root / "vendor/x/.git").exists()
    before = content(folder)
    elsewhere = source_in(tmp_path / "elsewhere")
    (tmp_path / "sources/link").symlink_to(tmp_path / "elsewhere")
    for address, path, code in (
        (source, "vendor/x", "E_PATH"),
        (source, "README", "E_PATH"),
        (source, "README/x", "E_PATH"),
        (source, "../x", "E_PATH"),
        (source, ".git/x", "E_PROTECTED"),
        (elsewhere, "y", "E_PATH"),
        (tmp_path / "sources/../elsewhere/repo", "y", "E_PATH"),
        (tmp_path / "sources/link/repo", "y", "E_REPO"),
        (tmp_path / "sources", "y", "E_REPO"),
    ):
        assert git("clone", source=str(address), path=path).error == code, (address, path)
    assert content(folder) == before


def test_an_address_needs_the_scope_network(server: GitServer, folder: FolderWorkspace) -> None:
    assert asker(server, folder)("clone", source="https://localhost:1/x", path="x").error == "E_PROTO"
    assert asker(server, folder, "network")("clone", source="https://localhost:1/x", path="x").error == "E_PROTO"
    near = GitServer(spec="networks=127.0.0.0/8 ::1/128")
    assert asker(near, folder, "network")("clone", source="https://localhost:1/x", path="x").error == "E_GIT"
    assert asker(server, folder, "network")("clone", source="ssh://localhost/x", path="x").error == "E_PROTO"


def test_a_workspace_with_a_repository_uses_it(server: GitServer, folder: FolderWorkspace, tmp_path: Path) -> None:
    workspace = Versioned(folder.root, tmp_path / "git")
    assert isinstance(workspace, HasGit)
    status = asker(server, workspace)("status").value
    assert (status["branch"], status["base"]) == ("work", workspace.base_commit)
    change(folder, "README", "read", "write")
    made = asker(server, workspace)("commit", message="x").value["commit"]
    assert Repository(tmp_path / "git").commit_of("work") == made


def test_what_the_server_made_vanishes(
    folder: FolderWorkspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    server = GitServer()
    other = FolderWorkspace(folder.root)
    for workspace in (folder, other):
        assert asker(server, workspace)("status").ok
    assert len(os.listdir(place)) == 2
    del workspace, other
    gc.collect()
    assert len(os.listdir(place)) == 1
    asyncio.run(server.close())
    asyncio.run(server.close())
    assert os.listdir(place) == []
    assert asker(server, folder)("status").error == "E_TOOL"


def test_a_repository_that_an_agent_makes_in_the_workspace_is_not_looked_at(git: Ask, folder: FolderWorkspace) -> None:
    assert git("status").ok
    subprocess.run(["git", "init", "-q", str(folder.root)], check=True)
    canary = folder.root.parent / "canary"
    with (folder.root / ".git/config").open("a") as file:
        file.write(f'[core]\n\tfsmonitor = "touch {canary};false"\n[filter "x"]\n\tclean = touch {canary}\n')
    (folder.root / ".gitattributes").write_text("* filter=x\n")
    for tool, arguments in (("status", {}), ("diff", {}), ("commit", {"message": "x"}), ("log", {})):
        assert git(tool, **arguments).ok
    assert not canary.exists()
    assert ".git" not in git("show").value["diff"].replace(".gitattributes", "")
