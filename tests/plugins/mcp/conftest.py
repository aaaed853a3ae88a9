from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apex_framework.interfaces import Capability, Task, ToolCall, ToolResult
from apex_framework.ports import RealEffects
from apex_mcp.fs import FsServer
from apex_mcp.test import TestServer
from apex_workspaces.local import LocalWorkspace, LocalWorkspaces

MODULE = "def add(a, b):\n    return a - b\n\n\nclass C:\n    @property\n    def p(self):\n        return 1\n"
TESTS = "import unittest\nfrom pkg.m import add\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(add(1, 2), 3)\n    def test_b(self):\n        self.assertEqual(add(0, 0), 0)\n"

Ask = Callable[..., ToolResult]


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalWorkspaces]:
    made = LocalWorkspaces(cpu_s=1, idle_s=1.0)
    yield made
    made.close()


@pytest.fixture
def workspace(provider: LocalWorkspaces) -> Iterator[LocalWorkspace]:
    files = {"pkg/__init__.py": "", "pkg/m.py": MODULE, "tests/test_a.py": TESTS}
    made = provider.create(Task("t", "s", "dev", "i", "c", files=files, run={"tests": ["tests/test_a.py"]}))
    yield made
    made.dispose()


@pytest.fixture
def ask(workspace: LocalWorkspace) -> Ask:
    servers = {"fs": FsServer(effects=RealEffects()), "test": TestServer(effects=RealEffects())}
    capability = Capability(workspace, frozenset())

    def go(tool: str, **arguments: Any) -> ToolResult:
        return asyncio.run(servers[tool.split(".")[0]].call(ToolCall(tool, arguments, capability)))

    return go
