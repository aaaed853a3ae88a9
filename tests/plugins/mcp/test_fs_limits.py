"""Quotas, pages, patterns that would never end, and calls that keep out of each other's way."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apex_framework.errors import ConfigError
from apex_framework.interfaces import Capability, ToolCall, ToolResult
from apex_framework.testing.tool import FolderWorkspace
from apex_mcp import changes, files, gate, patching
from apex_mcp.fs import TOOLS, FsServer
from apex_mcp.gate import Gate, Put
from apex_mcp.outline import functions_in
from apex_mcp.quota import Quota, Usage
from apex_mcp.refusal import Refused

Ask = Callable[..., ToolResult]


def asking(root: Path, **options: Any) -> Ask:
    server, capability = FsServer(**options), Capability(FolderWorkspace(root), frozenset())
    return lambda tool, **given: asyncio.run(server.call(ToolCall(tool, given, capability)))


# --- work that would never end


def test_places_of_hunks_and_edits_that_take_too_long_to_find_are_refused(tmp_path: Path) -> None:
    """A file of one line, over and over, and a long text that fits nearly everywhere."""
    (tmp_path / "a").write_text("\n" * 500_000)
    ask, hunk = asking(tmp_path), 200_000
    diff = f"--- a/a\n+++ b/a\n@@ -1,{hunk + 1} +1,{hunk + 1} @@\n" + " \n" * hunk + "-z\n+y\n"
    assert ask("fs.patch", diff=diff).error == "E_PATCH"
    edit = {"path": "a", "search": "\n" * hunk + "z", "replace": "y"}
    answer = ask("fs.patch", edits=[edit])
    assert answer.error == "E_PATCH" and "too much work" in answer.detail
    assert (
        ask("fs.patch", edits=[{"path": "a", "search": "\n".join(map(str, range(hunk))), "replace": "y"}]).error
        == "E_PATCH"
    )


def test_a_transaction_begins_no_step_after_its_time(tmp_path: Path) -> None:
    capability = Capability(FolderWorkspace(tmp_path), frozenset())
    steps = [{"op": "write", "path": "a", "text": "x"}]
    answer = asyncio.run(FsServer().call(ToolCall("fs.transaction", {"steps": steps}, capability, -1.0)))
    assert answer.error == "E_TIMEOUT" and not list(tmp_path.iterdir())


# --- quotas


def test_bytes_beyond_the_quota_are_refused_and_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x" * 5000)
    ask = asking(tmp_path, quota_bytes=1000)
    assert ask("fs.write", path="a", text="x" * 900).ok
    assert ask("fs.write", path="b", text="x" * 101).error == "E_QUOTA"
    assert ask("fs.write", path="a", text="x" * 1000).ok, "only growth counts"
    steps = [{"op": "write", "path": "b", "text": "x" * 200}, {"op": "delete", "path": "a"}]
    assert ask("fs.transaction", steps=steps).ok, "what a transaction removes counts, too"
    assert sorted(os.listdir(tmp_path)) == ["b", "old"]


def test_files_beyond_the_quota_are_refused(tmp_path: Path) -> None:
    ask = asking(tmp_path, quota_files=3)
    assert [ask("fs.write", path=f"f{n}", text="").error for n in range(5)] == ["", "", "", "E_QUOTA", "E_QUOTA"]
    assert ask("fs.move", path="f0", to="g0").ok
    assert ask("fs.delete", path="f1").ok and ask("fs.write", path="f9", text="").ok
    assert sorted(os.listdir(tmp_path)) == ["f2", "f9", "g0"]


def test_what_was_rolled_back_is_not_held_against_the_workspace(tmp_path: Path) -> None:
    ask = asking(tmp_path, quota_bytes=100)
    for _ in range(5):
        assert ask("fs.write", path="a", text="x" * 90).ok
        (tmp_path / "a").unlink()  # as a rollback would
    assert ask("fs.write", path="a", text="x" * 101).error == "E_QUOTA"


def test_every_workspace_has_a_quota_of_its_own(tmp_path: Path) -> None:
    server = FsServer(quota_files=1)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        capability = Capability(FolderWorkspace(tmp_path / name), frozenset())
        for path, code in (("a", ""), ("b", "E_QUOTA")):
            call = ToolCall("fs.write", {"path": path, "text": ""}, capability)
            assert asyncio.run(server.call(call)).error == code


def test_a_quota_is_said_in_words(tmp_path: Path) -> None:
    ask = asking(tmp_path, spec="quota_bytes=10; quota_files=1")
    assert ask("fs.write", path="a", text="x" * 11).error == "E_QUOTA"
    assert ask("fs.write", path="a", text="x" * 10).ok and ask("fs.write", path="b", text="").error == "E_QUOTA"
    for spec in ("quota_files", "quota_files=x", "quota_files=-1", "files=1", "quota_files=²"):
        with pytest.raises(ConfigError, match="tool fs: cannot read"):
            FsServer(spec=spec)


def test_a_random_life_never_grows_beyond_the_quota() -> None:
    random_, quota, held = random.Random(5), Quota(1000, 10), Usage(400, 4)
    for _ in range(2000):
        growth = Usage(random_.randint(-300, 400), random_.randint(-2, 3))
        growth = Usage(max(growth.bytes, -held.bytes), max(growth.files, -held.files))
        try:
            quota.admit("w", growth, partial(Usage, *held))
        except Refused as refused:
            assert refused.code == "E_QUOTA"
            continue
        quota.add("w", growth)
        held = held.plus(growth)
        if growth.bytes > 0:
            assert held.bytes <= 1400
        if growth.files > 0:
            assert held.files <= 14
        if random_.random() < 0.05:
            held = Usage(min(held.bytes, 400), min(held.files, 4))


# --- pages


def test_lines_come_in_pages(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"{n}\n" for n in range(1, 11)))
    ask, seen, start = asking(tmp_path), "", 1
    while start:
        page = ask("fs.read", path="f", start=start, limit=4).value
        seen += page["text"] + "\n"
        start = page.get("next", 0)
    assert seen == (tmp_path / "f").read_text()
    assert ask("fs.read", path="f", start=9, end=9, limit=5).value["text"] == "9"
    assert "next" not in ask("fs.read", path="f", start=1, end=4).value
    assert ask("fs.read", path="f", limit=0).error == "E_ARG"
    (tmp_path / "empty").write_text("")
    assert ask("fs.read", path="empty", limit=5).value["text"] == ""


@pytest.mark.parametrize("length", [4, 5, 7, 64])
def test_bytes_come_in_pages_that_never_cut_a_character(tmp_path: Path, length: int) -> None:
    text = "aé中😀" * 50 + "\u0301"
    (tmp_path / "f").write_text(text)
    ask, seen, at = asking(tmp_path), "", 0
    while True:
        page = ask("fs.read", path="f", offset=at, length=length).value
        seen += page["text"]
        if "next" not in page:
            break
        assert page["next"] > at
        at = page["next"]
    assert seen == text
    assert ask("fs.read", path="f", offset=2).ok, "in the middle of a character: from the next one on"


def test_pieces_of_a_huge_file_are_read_and_binary_ones_refused(tmp_path: Path) -> None:
    with open(tmp_path / "huge", "wb") as file:
        file.write(b"begin\n")
        file.truncate(50 * 1024**3)
    ask = asking(tmp_path)
    assert ask("fs.read", path="huge").error == "E_SIZE"
    assert ask("fs.read", path="huge", offset=0, length=6).value["text"] == "begin\n"
    assert ask("fs.read", path="huge", offset=1024**3, length=100).error == "E_TYPE"
    assert ask("fs.read", path="huge", offset=0, start=1).error == "E_ARG"
    assert ask("fs.read", path="huge", offset=-1).error == "E_ARG"
    assert ask("fs.read", path="huge", length=3).error == "E_ARG"


def test_a_list_comes_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(25):
        (tmp_path / f"d{n % 3}/e{n % 2}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"d{n % 3}/e{n % 2}/f{n}").write_text("word\n")
    (tmp_path / "d1.txt").write_text("word\n")
    ask = asking(tmp_path)
    whole = ask("fs.list").value
    assert len(whole["paths"]) == 26 and whole["partial"] is False and "next" not in whole
    for most in (3, 7):
        monkeypatch.setattr(gate, "MOST_FILES", most)
        for more in ({}, {"limit": 2}):
            seen, after = [], None
            while after != "":
                page = ask("fs.list", **more, **({} if after is None else {"after": after})).value
                seen += page["paths"]
                after = page.get("next", "")
                assert page["partial"] == bool(after)
            assert seen == whole["paths"]
    monkeypatch.setattr(gate, "MOST_FOLDERS", 5)
    seen, after = [], ""
    for _ in range(200):
        page = ask("fs.list", **({"after": after} if after else {})).value
        seen += page["paths"]
        after = page.get("next", "")
        if not after:
            break
    assert set(seen) == set(whole["paths"])
    assert ask("fs.list", path="d1/e0").value["paths"] == [p for p in whole["paths"] if p.startswith("d1/e0/")]
    assert ask("fs.list", path="d9").error == "E_MISSING"
    assert ask("fs.list", limit=0).error == "E_ARG"


@pytest.mark.parametrize("regex", ["word", "w.rd"])
def test_a_search_comes_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, regex: str) -> None:
    for n in range(12):
        (tmp_path / f"f{n:02}").write_text("word\nno\nword\n")
    ask = asking(tmp_path)
    whole = ask("fs.search", regex=regex).value["hits"]
    assert len(whole) == 24
    for patched, value in (("files", 5), ("hits", 5), ("bytes", 30)):
        with monkeypatch.context() as patch:
            if patched == "files":
                patch.setattr(gate, "MOST_FILES", value)
            elif patched == "bytes":
                patch.setattr(files, "MOST_SEARCHED", value)
            else:
                patch.setattr("apex_mcp.search.MOST_HITS", value)
                patch.setattr("apex_mcp.reading.MOST_HITS", value)
            seen, after = [], None
            while after != "":
                page = ask("fs.search", regex=regex, **({} if after is None else {"after": after})).value
                seen += page["hits"]
                after = page.get("next", "")
                assert page["partial"] == bool(after)
            assert seen == whole, patched
    for bad in ("f00", "f00:x", ":1", "f00:²"):
        assert ask("fs.search", regex=regex, after=bad).error == "E_ARG"
    assert ask("fs.search", regex=regex, path="none").error == "E_MISSING"


def test_an_outline_comes_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(6):
        (tmp_path / f"m{n}.py").write_text("def f():\n    pass\n\ndef g():\n    pass\n")
    ask = asking(tmp_path)
    whole = ask("fs.outline").value["functions"]
    monkeypatch.setattr("apex_mcp.reading.MOST_FUNCTIONS", 5)
    seen, after = [], ""
    while True:
        page = ask("fs.outline", **({"after": after} if after else {})).value
        seen += page["functions"]
        after = page.get("next", "")
        if not after:
            break
    assert seen == whole and len(whole) == 12


# --- patterns and patches that would never end

CATASTROPHES = ["(a+)+$", "(a|a?)+$", "(?:a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$"]


@pytest.mark.parametrize("regex", CATASTROPHES)
def test_no_pattern_outlives_its_second(tmp_path: Path, regex: str) -> None:
    (tmp_path / "evil").write_text("a" * 60 + "!")
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    async def go() -> ToolResult:
        beating = asyncio.ensure_future(beat())
        capability = Capability(FolderWorkspace(tmp_path), frozenset())
        try:
            return await FsServer().call(ToolCall("fs.search", {"regex": regex}, capability))
        finally:
            beating.cancel()

    assert asyncio.run(go()).error in ("E_TIMEOUT", "")
    assert beats > 0, "the loop went on meanwhile"


def test_patterns_that_ask_for_too_much_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    ask = asking(tmp_path)
    for regex in ("(", "a" * 1001 + ".", "(?P<x>a)(?P<x>b)", "a{99999999999999999999}", "[", "\\", "(?z)a"):
        assert ask("fs.search", regex=regex).error == "E_ARG", regex
    assert ask("fs.search", regex="a", glob="*" * 2000).error == "E_ARG"
    assert ask("fs.list", glob="*a" * 500 + "b").value["paths"] == []


def test_hunks_that_fit_nowhere_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patching, "MOST_COMPARED", 1000)
    text = "x\n" * 5000 + "y\n"
    diff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-y\n+z\n"
    with pytest.raises(Refused, match="too much work"):
        patching.apply_diff(diff, lambda _: text)
    with pytest.raises(Refused, match="1,000 edits"):
        patching.edits_from([{"path": "f", "search": "x", "replace": "y"}] * 1001)


def test_a_program_that_nests_deeply_has_no_outline() -> None:
    deep = "x = " + "-" * 20_000 + "1\n"
    chain = "if a:\n    pass\n" + "elif a:\n    pass\n" * 2000
    for text in (deep, chain, "def f():\n    return " + "1+" * 3000 + "1\n", "(" * 5000):
        assert len(functions_in(text)) <= 1


def test_edits_of_one_file_under_two_spellings_are_edits_of_one_text(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_text("a\nb\n")
    first = {"path": "d/f", "line": 1, "search": "a", "replace": "A"}
    second = {"path": "d//./f", "line": 2, "search": "b", "replace": "B"}
    assert asking(tmp_path)("fs.patch", edits=[first, second]).value == {"paths": ["d/f"]}
    assert (tmp_path / "d/f").read_text() == "A\nB\n"
    hunk = "@@ -1 +1 @@\n-A\n+C\n"
    diff = f"--- a/d/f\n+++ b/d/f\n{hunk}--- a/d//f\n+++ b/d//f\n{hunk}"
    assert asking(tmp_path)("fs.patch", diff=diff).error == "E_PATCH"


# --- calls beside each other


def test_a_workspace_that_somebody_holds_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "LOCK_S", 0.01)
    (tmp_path / "f").write_text("a")
    ask, fd = asking(tmp_path), os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        assert ask("fs.read", path="f").ok, "readers share"
        assert ask("fs.write", path="f", text="b").error == "E_BUSY"
        fcntl.flock(fd, fcntl.LOCK_EX)
        assert ask("fs.read", path="f").error == "E_BUSY"
    finally:
        os.close(fd)
    assert ask("fs.write", path="f", text="b").ok


def test_of_calls_at_once_none_is_lost(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"line {n}\n" for n in range(20)))
    server, capability = FsServer(), Capability(FolderWorkspace(tmp_path), frozenset())

    async def go() -> list[ToolResult]:
        edits = [{"path": "f", "line": n + 1, "search": f"line {n}", "replace": f"done {n}"} for n in range(20)]
        calls = [ToolCall("fs.patch", {"edits": [edit]}, capability) for edit in edits]
        return list(await asyncio.gather(*(server.call(call) for call in calls)))

    assert all(result.ok for result in asyncio.run(go()))
    assert (tmp_path / "f").read_text() == "".join(f"done {n}\n" for n in range(20))


def test_calls_that_do_not_wait_for_each_other_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a gate that does not lock, and a reader that comes between reading and writing."""
    monkeypatch.setattr(Gate, "_lock", lambda self, how: None)
    (tmp_path / "f").write_text("a\nb\n")
    committed: list[bool] = []
    real = changes.commit

    def slow(root: Any, puts: Any) -> None:
        if not committed:
            committed.append(True)
            edit = {"path": "f", "line": 2, "search": "b", "replace": "B"}
            assert asking(tmp_path)("fs.patch", edits=[edit]).ok
        real(root, puts)

    monkeypatch.setattr(changes, "commit", slow)
    edit = {"path": "f", "line": 1, "search": "a", "replace": "A"}
    assert asking(tmp_path)("fs.patch", edits=[edit]).ok
    assert (tmp_path / "f").read_text() != "A\nB\n"


def test_nothing_of_a_failed_change_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_text("old")

    def failing(call: Callable[..., Any]) -> Callable[..., Any]:
        left = [1]

        def once(*given: Any, **named: Any) -> Any:
            if left.pop() if left else 0:
                raise OSError(28, "No space left on device")
            return call(*given, **named)

        return once

    for call in ("rename", "mkdir", "link", "fchmod"):
        with monkeypatch.context() as patch, Gate(tmp_path) as held:
            held.lock(alone=True)
            patch.setattr(os, call, failing(getattr(os, call)))
            with pytest.raises(Refused, match=r"E_IO|E_SIZE"):
                held.change({("f",): Put(b"new"), ("g", "h"): Put(b"x" * (1024**2 + (call == "link")))})
        assert os.listdir(tmp_path) == ["f"] and (tmp_path / "f").read_text() == "old"


def test_annotations_say_what_the_tools_do() -> None:
    told = {t.name.partition(".")[2]: (t.read_only, t.destructive, t.idempotent, t.outward) for t in TOOLS}
    looks = dict.fromkeys(("read", "search", "list", "outline"), (True, False, False, False))
    changes_ = dict.fromkeys(("patch", "delete", "move", "transaction"), (False, True, False, False))
    assert told == {**looks, **changes_, "write": (False, True, True, False)}
