"""The MCP Inspector's command line against what we serve; skipped where it is not installed.

``APEX_TEST_INSPECTOR`` names its program, as ``.ci/run`` does where npm can install it; otherwise npx may have it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

INSPECTOR = "@modelcontextprotocol/inspector"


class Inspector:
    """One kind of server, asked by the Inspector: each question starts it anew."""

    def __init__(self, program: list[str], root: Path) -> None:
        self.program, self.root = program, root

    def ask(self, tools: str, *question: str) -> Any:
        """Its answer as JSON, whether or not the tool refused."""
        serve = [sys.executable, "-m", "apex_framework", "mcp", "serve", tools, "--root", str(self.root)]
        asked = subprocess.run(
            [*self.program, "--cli", *serve, *question],
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
            env={**os.environ, "HOME": str(self.root.parent)},
        )
        if "ENOTCACHED" in asked.stderr:
            pytest.skip(f"the inspector is not installed: npm install {INSPECTOR}, and APEX_TEST_INSPECTOR=its program")
        try:
            return json.loads(asked.stdout)
        except ValueError:
            raise AssertionError(f"{asked.args} said {asked.stdout!r}, {asked.stderr!r}") from None


@pytest.fixture
def inspector(root: Path) -> Inspector:
    if program := os.environ.get("APEX_TEST_INSPECTOR"):
        return Inspector([program], root)
    if (npx := shutil.which("npx")) is None:
        pytest.skip("node is not installed")
    return Inspector([npx, "--offline", "-y", INSPECTOR], root)


@pytest.mark.slow
def test_the_inspector_lists_and_calls(inspector: Inspector) -> None:
    listed = inspector.ask("fs", "--method", "tools/list")["tools"]
    read = next(tool for tool in listed if tool["name"] == "fs_read")
    assert read["annotations"]["readOnlyHint"] is True and read["inputSchema"]["required"] == ["path"]
    called = inspector.ask("fs", "--method", "tools/call", "--tool-name", "fs_read", "--tool-arg", "path=m.py")
    assert called["structuredContent"]["text"].startswith("def add") and not called.get("isError")


@pytest.mark.slow
def test_the_inspector_is_told_of_a_refusal(inspector: Inspector) -> None:
    way_out = ["--tool-name", "fs_read", "--tool-arg", "path=../outside.txt"]
    called = inspector.ask("fs", "--method", "tools/call", *way_out)
    assert called["isError"] is True and "E_PATH" in json.dumps(called)
    assert "text" not in (called.get("structuredContent") or {})


@pytest.mark.slow
@pytest.mark.parametrize("tools", ["git", "test"])
def test_the_inspector_lists_the_other_servers(inspector: Inspector, tools: str) -> None:
    (inspector.root / "test_m.py").write_text("import unittest\n")
    subprocess.run(["git", "init", "-q", str(inspector.root)], check=True)
    listed = inspector.ask(tools, "--method", "tools/list")["tools"]
    assert {tool["name"].partition("_")[0] for tool in listed} == {tools, "resource"}
