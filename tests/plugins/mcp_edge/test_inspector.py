"""The MCP Inspector's command line against what we serve; skipped where it is not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

INSPECTOR = "@modelcontextprotocol/inspector"


@pytest.mark.slow
def test_the_inspector_lists_and_calls(root: Path) -> None:
    if (npx := shutil.which("npx")) is None:
        pytest.skip("node is not installed")
    serve = [sys.executable, "-m", "apex_framework", "mcp", "serve", "fs", "--root", str(root)]

    def inspect(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [npx, "--offline", "-y", INSPECTOR, "--cli", *serve, *arguments]
        return subprocess.run(argv, capture_output=True, text=True, timeout=50, check=False)

    listed = inspect("--method", "tools/list")
    if "ENOTCACHED" in listed.stderr:
        pytest.skip(f"the inspector is not installed: npx -y {INSPECTOR} --help fetches it")
    assert "fs_read" in [tool["name"] for tool in json.loads(listed.stdout)["tools"]], listed.stderr
    called = inspect("--method", "tools/call", "--tool-name", "fs_read", "--tool-arg", "path=m.py")
    assert json.loads(called.stdout)["structuredContent"]["text"].startswith("def add"), called.stderr
