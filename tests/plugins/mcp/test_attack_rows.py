"""Rows of the attack catalogue that need more than one call, or a file that no workspace of the range can hold."""

from __future__ import annotations

import asyncio
import errno
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from apex_framework.interfaces import Capability, ToolCall, ToolResult
from apex_framework.testing.tool import FolderWorkspace
from apex_mcp.fs import FsServer

Ask = Callable[..., ToolResult]
HUGE = 100 * 2**30


def asking(root: Path, spec: str = "") -> Ask:
    server, capability = FsServer(spec=spec), Capability(FolderWorkspace(root), frozenset())
    return lambda tool, **given: asyncio.run(server.call(ToolCall(tool, given, capability)))


def test_a13_a_hundred_gigabytes_take_no_memory(tmp_path: Path) -> None:
    try:
        with (tmp_path / "huge.py").open("wb") as file:
            file.write(b"canary = 1\n")
            file.truncate(HUGE)
    except OSError as error:
        pytest.skip(f"this disk holds no sparse file of that size: {error}")
    (tmp_path / "small.py").write_text("canary = 2\n")
    ask, patch = asking(tmp_path), {"path": "huge.py", "edits": [{"line": 1, "search": "canary", "replace": "x"}]}
    tracemalloc.start()
    try:
        assert ask("fs.read", path="huge.py").error == "E_SIZE"
        assert ask("fs.read", path="huge.py", limit=1).error in ("E_SIZE", "")
        assert ask("fs.read", path="huge.py", offset=0, length=8).value["text"] == "canary ="
        assert ask("fs.patch", **patch).error == "E_SIZE"
        found = ask("fs.search", regex="canary").value
        assert "small.py" in str(found) and "huge.py" not in str(found)
        assert ask("fs.outline").ok and ask("fs.list").value["paths"] == ["huge.py", "small.py"]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 16 * 2**20
    assert (tmp_path / "huge.py").stat().st_size == HUGE and ask("fs.delete", path="huge.py").ok


def test_a18_a_hundred_thousand_tiny_files_meet_the_usual_quota(tmp_path: Path) -> None:
    """Written in turns of a thousand, as a transaction allows; what is refused changes nothing."""
    ask = asking(tmp_path, "quota_files=2500")
    codes = []
    for turn in range(100):
        steps = [{"op": "write", "path": f"many/{turn}-{n}", "text": ""} for n in range(1000)]
        codes.append(ask("fs.transaction", steps=steps).error)
        if len(codes) > 4:
            break
    assert codes[:3] == ["", "", "E_QUOTA"] and set(codes[2:]) == {"E_QUOTA"}
    assert len(os.listdir(tmp_path / "many")) == 2000


def test_a19_extended_attributes_and_modes_are_dropped(tmp_path: Path) -> None:
    target = tmp_path / "a.sh"
    target.write_text("x")
    target.chmod(0o6777)
    if hasattr(os, "setxattr"):
        try:
            os.setxattr(target, "user.evil", b"1")
        except OSError as error:
            assert error.errno in (errno.ENOTSUP, errno.EPERM)
    assert asking(tmp_path)("fs.write", path="a.sh", text="y").ok
    assert target.stat().st_mode & 0o7777 == 0o755
    assert not hasattr(os, "listxattr") or "user.evil" not in os.listxattr(target)
    assert asking(tmp_path)("fs.write", path="new.sh", text="y").ok
    assert (tmp_path / "new.sh").stat().st_mode & 0o7777 == 0o644
