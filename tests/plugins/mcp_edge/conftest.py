"""What tests of the MCP edge share: a folder to serve, and ways to speak to what serves it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

from apex_framework import load_plugins
from apex_framework.interfaces import Capability, ToolCall, ToolResult
from apex_framework.testing.tool import FolderWorkspace
from apex_mcp_edge.launch import Offer, door
from apex_mcp_edge.outside import OutsideTools
from apex_mcp_edge.serving import Served


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    (made / "m.py").write_text("def add(a, b):\n    return a + b\n")
    (tmp_path / "outside.txt").write_text("outside")
    return made


@pytest.fixture(scope="session")
def make() -> Callable[..., Any]:
    return load_plugins().catalog.make


@pytest.fixture
def served(make: Callable[..., Any], root: Path) -> Served:
    return Served(*door(make, Offer(("fs",), root)))


class Outside:
    """An outside server of some behaviour, and calls of it."""

    def __init__(self, folder: Path, behaviour: str, **ours: Any) -> None:
        self.file = folder / "servers.json"
        argv = ["-m", "apex_framework.testing.evil_mcp", behaviour]
        server = {"command": sys.executable, "args": argv, "apex": {"timeout_s": 20, **ours}}
        self.file.write_text(json.dumps({"mcpServers": {"evil": server}}))
        (folder / "workspace").mkdir(exist_ok=True)
        self.capability = Capability(FolderWorkspace(folder / "workspace"), frozenset({"evil.echo"}))
        self.tools = OutsideTools(spec=str(self.file))

    def call(self, text: str = "hi", deadline_s: float = 20.0) -> ToolResult:
        call = ToolCall("evil.echo", {"text": text}, self.capability, deadline_s)
        return asyncio.run(self.tools.call(call))


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Callable[..., Outside]]:
    made: list[Outside] = []

    def start(behaviour: str, **ours: Any) -> Outside:
        made.append(Outside(tmp_path, behaviour, **ours))
        return made[-1]

    yield start
    for one in made:
        one.tools.shut()
