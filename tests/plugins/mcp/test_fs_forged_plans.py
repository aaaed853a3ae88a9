"""Plans of changes that nobody of ours made: set aside with a warning, never followed, and no call fails for them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.interfaces import Capability, ToolCall, ToolResult
from apex_framework.testing.tool import FolderWorkspace
from apex_mcp import changes, plans
from apex_mcp.beneath import Root
from apex_mcp.fs import FsServer

Ask = Callable[..., ToolResult]


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of the test's own."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    monkeypatch.setenv("HOME", str(folder))
    plans._key.cache_clear()
    yield folder
    plans._key.cache_clear()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w/a.txt").write_text("a\n")
    (tmp_path / "w/conftest.py").write_text("ours\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/f").write_text("kept")
    (tmp_path / "w/way").symlink_to(tmp_path / "out")
    return tmp_path / "w"


def asking(root: Path) -> Ask:
    server, capability = FsServer(), Capability(FolderWorkspace(root), frozenset())
    return lambda tool, **given: asyncio.run(server.call(ToolCall(tool, given, capability)))


def plant(root: Path, plan: str | bytes, name: str = "changes-1") -> Path:
    stage = root / ".apex" / name
    stage.mkdir(parents=True)
    (stage / "old-0").write_text("forged")
    (stage / "plan.json").write_bytes(plan if isinstance(plan, bytes) else plan.encode())
    return stage


def sealed(root: Path, name: str, *entries: tuple[str, bool, bool]) -> bytes:
    """As this framework seals it."""
    plan = plans.Plan(tuple(plans.Entry(tuple(path.split("/")), old, new) for path, old, new in entries))
    opened = Root(root)
    try:
        return plan.sealed(changes._place(opened, name))
    finally:
        opened.close()


def forged(entries: list[Any], made: list[str] | None = None, seal: object = "0" * 64) -> str:
    return json.dumps({"plan": json.dumps({"entries": entries, "made": made or []}), "seal": seal})


FORGED = [
    "",
    "[]",
    "{}",
    "[" * 100_000,
    forged([["conftest.py", True, True]]),
    forged([["way/f", True, True]]),
    forged([["a.txt", False, True]]),
    forged([], ["way"]),
    forged([["../outside", False, True]], seal=None),
    forged([["conftest.py", True, True]], seal=["x"]),
    json.dumps({"entries": [["conftest.py", True, True]], "made": []}),  # as it was written without a seal
    json.dumps({"plan": 7, "seal": "\ud800"}),
]


def violations(root: Path) -> list[str]:
    """What is not as it should be, after a look, a change and a change of several."""
    ask, found = asking(root), []
    steps = [{"op": "write", "path": f"n{n}", "text": "x"} for n in range(2)]
    for tool, arguments in (
        ("fs.read", {"path": "a.txt"}),
        ("fs.write", {"path": "b.txt", "text": "b"}),
        ("fs.transaction", {"steps": steps}),
    ):
        if error := ask(tool, **arguments).error:
            found.append(f"{tool}: {error}")
    if (root / "a.txt").read_text() != "a\n" or (root / "conftest.py").read_text() != "ours\n":
        found.append("it was followed")
    if (root.parent / "out/f").read_text() != "kept":
        found.append("it led out")
    return found


@pytest.mark.parametrize("plan", FORGED, ids=range(len(FORGED)))
def test_a_forged_plan_is_set_aside_and_never_followed(root: Path, plan: str, caplog: pytest.LogCaptureFixture) -> None:
    plant(root, plan)
    assert violations(root) == []
    (aside,) = os.listdir(root / ".apex")
    assert aside.startswith("aside-") and (root / ".apex" / aside / "old-0").read_text() == "forged"
    assert caplog.text.count("was not followed") == 1 and aside in caplog.text


def test_many_forged_plans_are_set_aside_each(root: Path) -> None:
    for number in range(20):
        plant(root, forged([["conftest.py", True, True]]), f"changes-{number}")
    assert violations(root) == [] and len(os.listdir(root / ".apex")) == 20


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_are_a_plan(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    root = tmp_path_factory.mktemp("w")
    (root / "a.txt").write_text("a\n")
    plant(root, data)
    assert asking(root)("fs.read", path="a.txt").ok and (root / "a.txt").read_text() == "a\n"
    shutil.rmtree(root)


def test_a_seal_of_another_folder_or_stage_is_none(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    plant(root, sealed(other, "changes-1", ("conftest.py", True, True)), "changes-1")
    plant(root, sealed(root, "changes-1", ("conftest.py", True, True)), "changes-2")
    assert violations(root) == []


def test_a_plan_with_our_seal_is_followed(root: Path) -> None:
    plant(root, sealed(root, "changes-1", ("a.txt", True, True)))
    assert asking(root)("fs.read", path="a.txt").value["text"] == "forged" and not (root / ".apex").exists()


@pytest.mark.parametrize("path", ["way/f", "sub", "a.txt/below"])
def test_a_plan_of_ours_that_no_longer_fits_is_set_aside(
    root: Path, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "sub/full").mkdir(parents=True)
    plant(root, sealed(root, "changes-1", (path, True, True)))
    assert violations(root) == [] and "does not fit the folder" in caplog.text


@pytest.mark.parametrize("planted", ["seals are not looked at", "what does not fit is tried again"])
def test_planted_bugs_show(root: Path, monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    if planted == "seals are not looked at":
        monkeypatch.setattr(plans, "_seal", lambda place, body: "0" * 64)
        plant(root, forged([["conftest.py", True, True]]))
        assert violations(root) == ["it was followed"]
    else:
        monkeypatch.setattr(changes, "_UNFIT", frozenset())
        plant(root, sealed(root, "changes-1", ("sub", True, True)))
        (root / "sub").mkdir()
        assert "fs.read: E_IO" in violations(root)


# --- the key


def test_the_key_is_made_once_and_for_its_user_alone(state: Path) -> None:
    key = plans._key()
    plans._key.cache_clear()
    assert plans._key() == key and len(key) == plans.KEY_BYTES
    (file,) = [p for p in state.rglob("*") if p.is_file()]
    assert file.name == "changes.key" and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["short", "open", "link", "no folder"])
def test_a_key_that_is_none_is_said_and_not_used(state: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    key = plans._key()
    (file,) = [p for p in state.rglob("*") if p.is_file()]
    plans._key.cache_clear()
    if damage == "short":
        file.write_bytes(key[:8])
    elif damage == "open":
        file.chmod(0o644)
    elif damage == "link":
        file.rename(state / "elsewhere")
        file.symlink_to(state / "elsewhere")
    else:
        shutil.rmtree(file.parent)
        file.parent.write_text("")
    assert plans._key() != key and "will not be taken back later" in caplog.text
