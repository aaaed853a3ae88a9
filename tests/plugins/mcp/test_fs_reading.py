"""What a look at a file costs and gives: whole content whatever its size, and no discovery of tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from apex_framework.interfaces import Capability, TestReport, ToolCall, ToolResult
from apex_framework.testing.tool import FolderWorkspace
from apex_mcp.fs import FsServer
from apex_mcp.gate import MOST_BYTES, Gate

LOOKS = {"fs.read": {"path": "a.py"}, "fs.list": {}, "fs.search": {"regex": "x"}}


class WithTests(FolderWorkspace):
    """A workspace that counts how often it is asked for its tests."""

    asked = 0

    def discover(self) -> Sequence[str]:
        self.asked += 1
        return ["test_a.py::test"]

    def run_tests(self, *_: object, **__: object) -> TestReport:
        return TestReport(())


def call(workspace: WithTests, tool: str, **arguments: object) -> ToolResult:
    held = Capability(workspace, frozenset({tool}))
    return asyncio.run(FsServer().call(ToolCall(tool, arguments, held)))


@pytest.mark.parametrize("tool", LOOKS)
def test_looking_does_not_discover_tests_and_changing_does_once(tmp_path: Path, tool: str) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    workspace = WithTests(tmp_path)
    assert call(workspace, tool, **LOOKS[tool]).ok and workspace.asked == 0
    steps = [{"op": "write", "path": "b", "text": ""}, {"op": "write", "path": "c", "text": ""}]
    assert call(workspace, "fs.transaction", steps=steps).ok and workspace.asked == 1
    assert call(workspace, "fs.write", path="test_a.py", text="").error == "E_PROTECTED"


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000, MOST_BYTES])
def test_a_file_is_read_whole(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "f").write_bytes(data)
    with Gate(tmp_path) as gate:
        assert gate.read(("f",)) == data


def test_a_file_that_grows_while_it_is_read_gives_no_more_than_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, read = tmp_path / "f", os.read
    file.write_bytes(b"x" * 10)

    def grows(fd: int, size: int) -> bytes:
        with file.open("ab") as more:
            more.write(b"y" * 300_000)
        return read(fd, size)

    monkeypatch.setattr(os, "read", grows)
    with Gate(tmp_path) as gate:
        assert len(gate.read(("f",))) == MOST_BYTES
