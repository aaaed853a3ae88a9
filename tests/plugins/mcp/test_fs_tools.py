"""What the fs tools do, and that a change happens whole or not at all."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.interfaces import ToolResult
from apex_mcp.fs import FsServer
from apex_mcp.patching import apply_diff
from apex_mcp.refusal import Refused
from apex_workspaces import tree
from apex_workspaces.local import LocalWorkspace

Ask = Callable[..., ToolResult]
GOOD = {"path": "pkg/m.py", "line": 2, "search": "    return a - b", "replace": "    return a + b"}


def test_read_whole_and_in_part(ask: Ask) -> None:
    whole = ask("fs.read", path="pkg/m.py").value
    assert whole["lines"] == 8 and whole["text"].startswith("def add")
    part = ask("fs.read", path="pkg/m.py", start=2, end=2).value
    assert part == {"path": "pkg/m.py", "text": "    return a - b", "start": 2, "end": 2, "lines": 8}
    assert ask("fs.read", path="none.py").error == "E_MISSING"
    assert ask("fs.read", path="pkg/m.py", start=0).error == "E_ARG"


@pytest.mark.parametrize(
    "arguments", [{}, {"path": 3}, {"path": "pkg/m.py", "start": "1"}, {"path": "pkg/m.py", "shell": "rm"}]
)
def test_malformed_arguments_are_refused(ask: Ask, arguments: dict[str, object]) -> None:
    assert ask("fs.read", **arguments).error == "E_ARG"


def test_write_makes_folders_and_leaves_no_temporary_file(ask: Ask, workspace: LocalWorkspace) -> None:
    assert ask("fs.write", path="new/deep/x.txt", text="hello\n").ok
    assert (workspace.root / "new/deep/x.txt").read_text() == "hello\n"
    assert ask("fs.write", path="new/deep/x.txt", text="\udcff").error == "E_ARG"
    assert os.listdir(workspace.root / "new/deep") == ["x.txt"]


def test_edits_over_several_files_apply_together(ask: Ask, workspace: LocalWorkspace) -> None:
    second = {"path": "pkg/m.py", "line": 8, "search": "        return 1", "replace": "        return 2"}
    assert ask("fs.patch", edits=[GOOD, second]).value == {"paths": ["pkg/m.py"]}
    text = (workspace.root / "pkg/m.py").read_text()
    assert "a + b" in text and "return 2" in text


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({**GOOD, "search": "not there"}, "E_PATCH"),
        ({**GOOD, "search": ""}, "E_PATCH"),
        ({**GOOD, "path": "none.py"}, "E_MISSING"),
        ({**GOOD, "path": "../x"}, "E_PATH"),
        ({**GOOD, "path": "tests/test_a.py"}, "E_PROTECTED"),
        ({"path": "pkg/m.py"}, "E_ARG"),
        ("text", "E_ARG"),
    ],
)
def test_one_bad_edit_leaves_every_file_as_it_was(ask: Ask, workspace: LocalWorkspace, bad: object, code: str) -> None:
    assert ask("fs.patch", edits=[GOOD, bad]).error == code
    assert workspace.diff() == ""


def test_a_write_that_fails_half_way_is_taken_back(ask: Ask, workspace: LocalWorkspace) -> None:
    os.mkfifo(workspace.root / "zz")
    diff = (
        "--- a/pkg/m.py\n+++ b/pkg/m.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
        "--- /dev/null\n+++ b/pkg/__init__.py/x\n@@ -0,0 +1 @@\n+x\n"
    )
    assert not ask("fs.patch", diff=diff).ok
    assert workspace.diff() == ""


BAD_DIFFS = {
    "leaves the workspace": "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n",
    "absolute": "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n",
    "rename": "diff --git a/pkg/m.py b/pkg/n.py\nrename from pkg/m.py\nrename to pkg/n.py\n",
    "binary": "diff --git a/x b/x\nGIT binary patch\nliteral 1\n",
    "context differs": "--- a/pkg/m.py\n+++ b/pkg/m.py\n@@ -1,2 +1,2 @@\n def sub(a, b):\n-    return a - b\n+    return a + b\n",
    "truncated": "--- a/pkg/m.py\n+++ b/pkg/m.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n",
    "no diff": "hello",
    "empty": "",
    "CRLF against LF": "--- a/pkg/m.py\r\n+++ b/pkg/m.py\r\n@@ -1,2 +1,2 @@\r\n def add(a, b):\r\n-    return a - b\r\n+    x\r\n",
    "exists already": "--- /dev/null\n+++ b/pkg/m.py\n@@ -0,0 +1 @@\n+x\n",
    "too many hunks": "--- a/pkg/m.py\n+++ b/pkg/m.py\n" + "@@ -1 +1 @@\n-a\n+b\n" * 2000,
}


@pytest.mark.parametrize("diff", BAD_DIFFS.values(), ids=BAD_DIFFS)
def test_a_diff_that_does_not_apply_changes_nothing(ask: Ask, workspace: LocalWorkspace, diff: str) -> None:
    result = ask("fs.patch", diff=diff)
    assert result.error in ("E_PATCH", "E_PATH")
    assert workspace.diff() == ""


def test_a_diff_creates_and_removes_files(ask: Ask, workspace: LocalWorkspace) -> None:
    (workspace.root / "old.txt").write_text("a\n")
    diff = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    assert ask("fs.patch", diff=diff).ok
    assert (workspace.root / "new.txt").read_text() == "x\ny"
    assert not (workspace.root / "old.txt").exists()


lines = st.lists(st.sampled_from(["a", "b", "c", "", "\x0c", "d\r"]), max_size=12).map("\n".join)


@given(lines, lines)
def test_a_diff_of_the_workspace_applies_to_what_it_was_made_from(old: str, new: str) -> None:
    diff = tree.diff({"f": old.encode()}, {"f": new.encode()})
    if old == new:
        with pytest.raises(Refused):
            apply_diff(diff, lambda _: old)
    else:
        assert apply_diff(diff, lambda _: old) == {"f": new}


def test_search_finds_lines_and_is_capped(ask: Ask, workspace: LocalWorkspace) -> None:
    hits = ask("fs.search", regex=r"return a\s[-+]", glob="*.py").value
    assert hits == {"hits": [{"path": "pkg/m.py", "line": 2, "text": "    return a - b"}], "partial": False}
    assert ask("fs.search", regex="def add").value["hits"][0]["line"] == 1
    (workspace.root / "many.txt").write_text("row 1\n" * 1000)
    for pattern in ("row 1", "row [0-9]"):
        found = ask("fs.search", regex=pattern).value
        assert len(found["hits"]) == 200 and found["partial"]


def test_search_cannot_hang(ask: Ask, workspace: LocalWorkspace) -> None:
    (workspace.root / "evil.txt").write_text("a" * 64 + "b")
    began = time.monotonic()
    assert ask("fs.search", regex="(a+)+$").error == "E_TIMEOUT"
    assert time.monotonic() - began < 10
    assert ask("fs.search", regex="(").error == "E_ARG"
    assert ask("fs.search", regex="(?:" * 300 + "a" + ")" * 300).error in ("E_ARG", "")


def test_list_and_outline(ask: Ask) -> None:
    assert ask("fs.list").value["paths"] == ["pkg/__init__.py", "pkg/m.py", "tests/test_a.py"]
    assert ask("fs.list", glob="tests/*").value["paths"] == ["tests/test_a.py"]
    functions = ask("fs.outline").value["functions"]
    assert functions == [
        {"path": "pkg/m.py", "name": "add", "first": 1, "last": 2},
        {"path": "pkg/m.py", "name": "C.p", "first": 6, "last": 8},
    ]
    assert ask("fs.outline", path="tests/test_a.py").value["functions"][0]["name"] == "T.test_a"


def test_the_methods_of_the_specification(tmp_path: Path) -> None:
    server = FsServer(root=tmp_path)

    async def go() -> None:
        await server.write_file("a/x.txt", b"one\n")
        assert await server.read_file("a/x.txt") == b"one\n"
        await server.patch_file("a/x.txt", "--- a/a/x.txt\n+++ b/a/x.txt\n@@ -1 +1 @@\n-one\n+two\n")
        assert await server.search_files(".", "t.o") == ["a/x.txt"]
        assert await server.search_files("b", "t.o") == []
        with pytest.raises(Refused, match="E_PATH"):
            await server.read_file("../x")

    asyncio.run(go())
