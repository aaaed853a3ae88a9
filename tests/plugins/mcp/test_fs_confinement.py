"""No argument, link or race takes the fs tools out of the workspace; refusals are codes and change nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.interfaces import ToolResult
from apex_mcp.names import split
from apex_mcp.refusal import Refused
from apex_workspaces.local import LocalWorkspace

Ask = Callable[..., ToolResult]

BAD_PATHS = {
    "../../etc/passwd": "E_PATH",
    "a/../../x": "E_PATH",
    "pkg/..": "E_PATH",
    "/etc/passwd": "E_PATH",
    "/proc/self/root/etc/passwd": "E_PATH",
    "//etc/passwd": "E_PATH",
    "a\0b": "E_ARG",
    "a\nb": "E_ARG",
    "\udc80": "E_ARG",
    "x" * 5000: "E_ARG",
    "x" * 300: "E_ARG",
    "d/" * 300 + "f": "E_ARG",
    ".git/config": "E_PROTECTED",
    ".GIT/hooks/post-commit": "E_PROTECTED",
    "pkg/.git/HEAD": "E_PROTECTED",
    "．git/config": "E_PROTECTED",
}


@pytest.mark.parametrize(("path", "code"), BAD_PATHS.items(), ids=[repr(p[:30]) for p in BAD_PATHS])
@pytest.mark.parametrize("tool", ["fs.read", "fs.write", "fs.patch"])
def test_bad_paths_are_refused(ask: Ask, workspace: LocalWorkspace, tool: str, path: str, code: str) -> None:
    more: dict[str, dict[str, object]] = {
        "fs.read": {},
        "fs.write": {"text": "x"},
        "fs.patch": {"edits": [{"search": "a", "replace": "b"}]},
    }
    result = ask(tool, path=path, **more[tool])
    assert (result.ok, result.error) == (False, code)
    assert workspace.diff() == ""


@pytest.mark.parametrize(
    "path", ["evil.pth", "sitecustomize.py", "pkg/usercustomize.py", "conftest.py", ".vscode/x", ".envrc", ".mcp.json"]
)
def test_files_that_run_by_themselves_are_not_written(ask: Ask, workspace: LocalWorkspace, path: str) -> None:
    assert ask("fs.write", path=path, text="x").error == "E_PROTECTED"
    assert workspace.diff() == ""


def test_the_files_of_the_tests_are_read_only(ask: Ask, workspace: LocalWorkspace) -> None:
    assert ask("fs.read", path="tests/test_a.py").ok
    assert ask("fs.write", path="tests/test_a.py", text="").error == "E_PROTECTED"
    assert ask("fs.write", path="tests//./test_a.py", text="").error == "E_PROTECTED"
    edit = {"path": "tests/test_a.py", "line": 6, "search": "import unittest", "replace": ""}
    assert ask("fs.patch", edits=[edit]).error == "E_PROTECTED"
    assert ask("test.run", edits=[edit]).error == "E_PROTECTED"
    assert workspace.diff() == ""


def test_nothing_is_expanded(ask: Ask, workspace: LocalWorkspace) -> None:
    for path in ("~/x", "$HOME/x", "%2e%2e/x", "..\\x"):
        assert ask("fs.write", path=path, text="literal").ok
        assert ask("fs.read", path=path).value["text"] == "literal"
        assert (workspace.root / path).exists()


def test_links_are_refused_on_the_way_and_at_the_end(ask: Ask, workspace: LocalWorkspace, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (workspace.root / "file").symlink_to(secret)
    (workspace.root / "folder").symlink_to(tmp_path)
    (workspace.root / "inside").symlink_to("pkg")
    (workspace.root / "loop").symlink_to("loop")
    for path in ("file", "folder/secret", "inside/m.py", "loop", "loop/x"):
        assert ask("fs.read", path=path).error == "E_SYMLINK"
        assert ask("fs.write", path=path, text="x").error == "E_SYMLINK"
    assert secret.read_text() == "secret"
    assert "secret" not in str(ask("fs.search", regex="secre.").value)
    assert not [p for p in ask("fs.list").value["paths"] if p.startswith(("file", "folder", "inside", "loop"))]


def test_special_files_are_refused_without_a_hang(ask: Ask, workspace: LocalWorkspace) -> None:
    os.mkfifo(workspace.root / "fifo")
    os.chdir(workspace.root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        for path in ("fifo", "sock", "pkg"):
            assert ask("fs.read", path=path).error == "E_TYPE"
            assert ask("fs.write", path=path, text="x").error == "E_TYPE"
    os.chdir("/")
    assert ask("fs.read", path="pkg/m.py/x").error == "E_TYPE"


def test_sizes_are_capped(ask: Ask, workspace: LocalWorkspace) -> None:
    with open(workspace.root / "sparse", "wb") as file:
        file.truncate(100 * 1024**3)
    assert ask("fs.read", path="sparse").error == "E_SIZE"
    assert ask("fs.write", path="big", text="x" * (1024**2 + 1)).error == "E_SIZE"
    assert ask("fs.search", regex="x.y").ok
    (workspace.root / "sparse").unlink()


def test_binary_files_are_refused(ask: Ask, workspace: LocalWorkspace) -> None:
    (workspace.root / "blob").write_bytes(b"\xff\xfe\x00")
    assert ask("fs.read", path="blob").error == "E_TYPE"


def test_a_second_hard_link_is_not_written_through(ask: Ask, workspace: LocalWorkspace, tmp_path: Path) -> None:
    outside = workspace.root.parent / "outside-link-target"
    outside.write_text("kept")
    os.link(outside, workspace.root / "linked")
    assert ask("fs.write", path="linked", text="new").ok
    assert outside.read_text() == "kept"
    outside.unlink()


def test_mode_bits_beyond_the_usual_are_dropped(ask: Ask, workspace: LocalWorkspace) -> None:
    target = workspace.root / "pkg/m.py"
    target.chmod(0o4777)
    assert ask("fs.write", path="pkg/m.py", text="x").ok
    assert target.stat().st_mode & 0o7777 == 0o755


@given(st.text(max_size=40))
def test_whatever_passes_the_split_has_no_way_up(text: str) -> None:
    try:
        parts = split(text)
    except Refused as refusal:
        assert refusal.code in ("E_ARG", "E_PATH")
    else:
        assert all(p and p not in (".", "..") and "/" not in p and "\0" not in p for p in parts)
