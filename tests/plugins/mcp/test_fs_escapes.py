"""Forty ways out of the workspace, each tried on every fs tool: a stable code, nothing read, nothing changed."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from apex_framework.interfaces import Capability, ToolCall, ToolResult
from apex_framework.testing.tool import FolderWorkspace
from apex_mcp import beneath
from apex_mcp.fs import TOOLS, FsServer

SECRET = "the secret outside\n"

ESCAPES: Mapping[str, str] = {
    # up
    "..": "E_PATH",
    "../w-evil/secret": "E_PATH",
    "../../etc/passwd": "E_PATH",
    "pkg/../../w-evil/secret": "E_PATH",
    "pkg/../m.py": "E_PATH",
    "./../w-evil/secret": "E_PATH",
    "pkg//..//../w-evil/secret": "E_PATH",
    "up/../../secret": "E_PATH",
    # absolute
    "/etc/passwd": "E_PATH",
    "//etc/passwd": "E_PATH",
    "/": "E_PATH",
    "/proc/self/root/etc/passwd": "E_PATH",
    "/proc/self/fd/0": "E_PATH",
    "/dev/fd/0": "E_PATH",
    "/dev/zero": "E_PATH",
    "{root}-evil/secret": "E_PATH",
    # malformed
    "pkg/m.py\0": "E_ARG",
    "pkg\n/m.py": "E_ARG",
    "pkg/\x1b[2Jm.py": "E_ARG",
    "\udc80/m.py": "E_ARG",
    "x" * 5000: "E_ARG",
    "é" * 200: "E_ARG",
    "d/" * 300 + "f": "E_ARG",
    # history and our own files, under every name that some file system or reader takes for theirs
    ".git/config": "E_PROTECTED",
    ".GIT/hooks/pre-commit": "E_PROTECTED",
    "pkg/.git/HEAD": "E_PROTECTED",
    "．ｇｉｔ/config": "E_PROTECTED",
    ".g\u200cit/config": "E_PROTECTED",
    ".gіt/config": "E_PROTECTED",
    ".git. ./config": "E_PROTECTED",
    "GIT~1/config": "E_PROTECTED",
    ".git::$INDEX_ALLOCATION/config": "E_PROTECTED",
    ".apex/changes-0/plan.json": "E_PROTECTED",
    # links and what is no file
    "link": "E_SYMLINK",
    "folder/secret": "E_SYMLINK",
    "chain/secret": "E_SYMLINK",
    "loop/x": "E_SYMLINK",
    "magic/secret": "E_SYMLINK",
    "inner/m.py": "E_SYMLINK",
    "fifo": "E_TYPE",
}
"""Path -> code, the same for every tool."""

Ask = Callable[..., ToolResult]


def arguments(tool: str, path: str) -> Iterator[dict[str, Any]]:
    """Every way to give a path to a tool."""
    edit = {"search": "a", "replace": "b"}
    if tool == "fs.search":
        yield {"regex": "secre.", "path": path}
        yield {"regex": "secret", "path": path}
    elif tool == "fs.write":
        yield {"path": path, "text": "x"}
    elif tool == "fs.patch":
        yield {"path": path, "edits": [edit]}
        yield {"edits": [{**edit, "path": path}]}
    elif tool == "fs.move":
        yield {"path": path, "to": "pkg/new.py"}
        yield {"path": "pkg/m.py", "to": path}
    elif tool == "fs.transaction":
        first = {"op": "write", "path": "pkg/m.py", "text": "changed"}
        yield {"steps": [first, {"op": "write", "path": path, "text": "x"}]}
        yield {"steps": [first, {"op": "delete", "path": path}]}
        yield {"steps": [first, {"op": "move", "path": "pkg/m.py", "to": path}]}
        yield {"steps": [first, {"op": "move", "path": path, "to": "pkg/new.py"}]}
        yield {"steps": [first, {"op": "patch", "path": path, "edits": [edit]}]}
    else:
        yield {"path": path}


def build(top: Path) -> Path:
    """A workspace ``w`` with traps, beside a folder whose name begins as its does."""
    root, evil = top / "w", top / "w-evil"
    (root / "pkg").mkdir(parents=True)
    (root / "pkg/m.py").write_text("a = 1\n")
    (root / ".git").mkdir()
    (root / ".git/config").write_text("secret config\n")
    evil.mkdir()
    (evil / "secret").write_text(SECRET)
    (root / "link").symlink_to(evil / "secret")
    (root / "folder").symlink_to(evil)
    (root / "chain").symlink_to("folder")
    (root / "loop").symlink_to("loop")
    (root / "magic").symlink_to("/proc/self/cwd")
    (root / "inner").symlink_to("pkg")
    (root / "up").symlink_to(".")
    os.mkfifo(root / "fifo")
    return root


def state(top: Path) -> dict[str, object]:
    """Everything below a folder: links as links, files with content, kind and mode."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = Path(folder, name)
            info = path.lstat()
            content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(top))] = (oct(info.st_mode), content)
    return found


def asking(root: Path, **options: Any) -> Ask:
    server, capability = FsServer(**options), Capability(FolderWorkspace(root), frozenset())
    return lambda tool, **given: asyncio.run(server.call(ToolCall(tool, given, capability)))


KERNEL = [
    pytest.param(True, marks=pytest.mark.skipif(not beneath.kernel_confines(), reason="no openat2 here")),
    False,
]


@pytest.mark.parametrize("openat2", KERNEL, ids=["openat2", "steps"])
@pytest.mark.parametrize("tool", [t.name for t in TOOLS])
def test_every_escape_is_refused_by_every_tool(tmp_path: Path, tool: str, openat2: bool) -> None:
    assert len(ESCAPES) == 40
    root = build(tmp_path)
    ask, before = asking(root, openat2=openat2), state(tmp_path)
    for escape, code in ESCAPES.items():
        for given in arguments(tool, escape.replace("{root}", str(root))):
            result = ask(tool, **given)
            assert (result.ok, result.error) == (False, code), (escape, given)
            assert "secret" not in str(result.value)
            if tool not in ("fs.read", "fs.list", "fs.outline", "fs.search"):
                assert state(tmp_path) == before, escape
    assert state(tmp_path) == before


def test_sockets_are_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = build(tmp_path)
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        for tool in ("fs.read", "fs.write", "fs.delete", "fs.move"):
            for given in arguments(tool, "sock"):
                result = asking(root)(tool, **given)
                assert not result.ok and result.error in ("E_TYPE", "E_EXISTS")


@pytest.mark.parametrize("glob", ["../*", "/etc/*", "pkg/../../*"])
def test_globs_do_not_leave_either(tmp_path: Path, glob: str) -> None:
    ask = asking(build(tmp_path))
    assert ask("fs.list", glob=glob).error == "E_PATH"
    assert ask("fs.search", glob=glob, regex="s.").error == "E_PATH"


@pytest.mark.parametrize("diff_path", ["../w-evil/secret", "/etc/passwd", "folder/secret", ".git/config"])
def test_diffs_do_not_leave_either(tmp_path: Path, diff_path: str) -> None:
    ask, before = asking(build(tmp_path)), state(tmp_path)
    diff = f"--- a/{diff_path}\n+++ b/{diff_path}\n@@ -1 +1 @@\n-{SECRET}+changed\n"
    assert ask("fs.patch", diff=diff).error in ("E_PATH", "E_SYMLINK", "E_PROTECTED")
    assert state(tmp_path) == before


# --- planted: each of these lets something out, and the tests above notice


def follows_links(self: beneath.Root, parts: tuple[str, ...], flags: int) -> int:
    try:
        return os.open("/".join(parts) or ".", flags & ~os.O_NOFOLLOW, dir_fd=self.fd)
    except OSError as error:
        raise beneath.refusal(error, parts[-1], self.fd) from None


def test_a_gate_that_follows_links_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beneath.Root, "open", follows_links)
    with pytest.raises(AssertionError):
        test_every_escape_is_refused_by_every_tool(tmp_path, "fs.read", False)


def test_names_that_are_compared_as_they_are_written_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apex_mcp.names.plain", lambda part: part)
    with pytest.raises(AssertionError):
        test_every_escape_is_refused_by_every_tool(tmp_path, "fs.read", False)
