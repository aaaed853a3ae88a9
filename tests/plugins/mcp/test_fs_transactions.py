"""Several changes happen whole or not at all, wherever the process is killed; deletes and moves are changes, too."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.interfaces import Capability, ToolCall, ToolResult
from apex_framework.testing.tool import FolderWorkspace
from apex_mcp import changes, plans
from apex_mcp.fs import FsServer
from apex_mcp.gate import Gate

Ask = Callable[..., ToolResult]

BEFORE = {"a.txt": "a\n", "b.txt": "b\n", "sub/c.txt": "c\n", "run.sh": "#!\n"}
STEPS: list[dict[str, Any]] = [
    {"op": "write", "path": "a.txt", "text": "new a\n"},
    {"op": "patch", "edits": [{"path": "a.txt", "line": 1, "search": "new a", "replace": "newer a"}]},
    {"op": "write", "path": "x/y/z.txt", "text": "z\n"},
    {"op": "move", "path": "sub/c.txt", "to": "moved/c.txt"},
    {"op": "delete", "path": "b.txt"},
    {"op": "move", "path": "run.sh", "to": "b.txt"},
]
AFTER = {"a.txt": "newer a\n", "x/y/z.txt": "z\n", "moved/c.txt": "c\n", "b.txt": "#!\n"}


def asking(root: Path, **options: Any) -> Ask:
    server, capability = FsServer(**options), Capability(FolderWorkspace(root), frozenset())
    return lambda tool, **given: asyncio.run(server.call(ToolCall(tool, given, capability)))


def fill(root: Path) -> Path:
    for path, text in BEFORE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "run.sh").chmod(0o755)
    return root


def tree(root: Path) -> dict[str, str]:
    return {str(p.relative_to(root)): p.read_text() for p in sorted(root.rglob("*")) if p.is_file()}


def folders(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_dir()}


def test_steps_see_those_before_them_and_are_saved_together(tmp_path: Path) -> None:
    result = asking(fill(tmp_path))("fs.transaction", steps=STEPS)
    assert result.value == {"paths": sorted(AFTER), "removed": ["run.sh", "sub/c.txt"]}
    assert tree(tmp_path) == dict(sorted(AFTER.items()))
    assert (tmp_path / "b.txt").stat().st_mode & 0o777 == 0o755
    assert ".apex" not in os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"op": "write", "path": "../x", "text": ""}, "E_PATH"),
        ({"op": "write", "path": "conftest.py", "text": ""}, "E_PROTECTED"),
        ({"op": "delete", "path": "none"}, "E_MISSING"),
        ({"op": "delete", "path": "sub"}, "E_TYPE"),
        ({"op": "move", "path": "none", "to": "n"}, "E_MISSING"),
        ({"op": "move", "path": "a.txt", "to": "x/y/z.txt"}, "E_EXISTS"),
        ({"op": "write", "path": "x/y/z.txt/below", "text": ""}, "E_ARG"),
        ({"op": "patch", "edits": [{"path": "a.txt", "search": "nowhere", "replace": ""}]}, "E_PATCH"),
        ({"op": "write", "path": "a.txt", "text": "\ud800"}, "E_ARG"),
        ({"op": "write", "path": "a.txt", "text": "\0"}, "E_ARG"),
        ({"op": "write", "path": "a.txt", "text": "x" * (1024**2 + 1)}, "E_SIZE"),
        ({"op": "chmod", "path": "a.txt"}, "E_ARG"),
        ({"op": "write", "path": "a.txt", "text": "", "mode": 0o777}, "E_ARG"),
        ({"path": "a.txt"}, "E_ARG"),
        ("delete a.txt", "E_ARG"),
    ],
)
def test_one_bad_step_leaves_everything_as_it_was(tmp_path: Path, bad: object, code: str) -> None:
    ask = asking(fill(tmp_path))
    for steps in ([*STEPS, bad], [bad, *STEPS]):
        if steps[0] is bad and code in ("E_EXISTS",):
            continue  # nothing is in the way yet
        result = ask("fs.transaction", steps=steps)
        assert result.error == code
        assert tree(tmp_path) == dict(sorted(BEFORE.items())) and folders(tmp_path) == {"sub"}


def test_no_steps_and_too_many_are_refused(tmp_path: Path) -> None:
    ask = asking(tmp_path)
    assert ask("fs.transaction", steps=[]).error == "E_ARG"
    assert ask("fs.transaction", steps=[STEPS[0]] * 1001).error == "E_ARG"
    megabytes = [{"op": "write", "path": f"f{n}", "text": "x" * 1024**2} for n in range(17)]
    assert ask("fs.transaction", steps=megabytes).error == "E_SIZE"
    assert os.listdir(tmp_path) == []


def test_delete_and_move(tmp_path: Path) -> None:
    ask = asking(fill(tmp_path))
    assert ask("fs.delete", path="a.txt").value == {"paths": [], "removed": ["a.txt"]}
    assert ask("fs.delete", path="a.txt").error == "E_MISSING"
    assert ask("fs.move", path="b.txt", to="deep/er/b.txt").value == {"paths": ["deep/er/b.txt"], "removed": ["b.txt"]}
    assert ask("fs.move", path="deep/er/b.txt", to="run.sh").error == "E_EXISTS"
    assert ask("fs.move", path="run.sh", to="run.sh").error == "E_EXISTS"
    assert tree(tmp_path) == {"deep/er/b.txt": "b\n", "run.sh": "#!\n", "sub/c.txt": "c\n"}


def test_a_file_of_any_size_and_kind_of_content_can_be_moved(tmp_path: Path) -> None:
    with open(tmp_path / "big", "wb") as file:
        file.write(b"\0\xff")
        file.truncate(3 * 1024**3)
    assert asking(tmp_path)("fs.move", path="big", to="d/big").ok
    assert (tmp_path / "d/big").stat().st_size == 3 * 1024**3


def test_where_there_are_no_hard_links_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "no")

    monkeypatch.setattr(os, "link", no_links)
    assert asking(fill(tmp_path))("fs.transaction", steps=STEPS).ok
    assert tree(tmp_path) == dict(sorted(AFTER.items()))


# --- killed, at every call to the system that changes something

CALLS = ("link", "mkdir", "rename", "unlink", "rmdir", "open")


def killed_at(number: int, work: Callable[[], object]) -> bool:
    """Do it in a process that is killed before its ``number``-th change; False when it ended before that."""
    pid = os.fork()
    if pid == 0:
        left = [number]

        def counted(call: Callable[..., Any]) -> Callable[..., Any]:
            def counting(*given: Any, **named: Any) -> Any:
                if call.__name__ != "open" or given[1] & os.O_CREAT:
                    left[0] -= 1
                    if left[0] < 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                return call(*given, **named)

            return counting

        try:
            for name in CALLS:
                setattr(os, name, counted(getattr(os, name)))
            work()
            os._exit(0)
        finally:
            os._exit(1)  # only where the work failed
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def transaction(root: Path) -> None:
    with Gate(root) as gate:
        gate.lock(alone=True)
        gate.change(
            {
                ("a.txt",): changes.Put(b"newer a\n"),
                ("x", "y", "z.txt"): changes.Put(b"z\n"),
                ("moved", "c.txt"): changes.Put(source=("sub", "c.txt")),
                ("sub", "c.txt"): None,
                ("b.txt",): changes.Put(source=("run.sh",)),
                ("run.sh",): None,
            }
        )


def recovery(root: Path) -> None:
    with Gate(root) as gate:
        gate.lock(alone=False)


def crash_points(top: Path, again: bool) -> tuple[int, set[str]]:
    """Kill at every point (``again``: and the recovery, too, at every one of its); number of points, and what was seen."""
    points, seen = 0, set[str]()
    while True:
        root = fill(top / str(points))
        if not killed_at(points, partial(transaction, root)):
            return points, seen
        if again:
            inner = 0
            while killed_at(inner, partial(recovery, root)):
                inner += 1
        assert asking(root)("fs.list").ok
        found = tree(root)
        assert found in (dict(sorted(BEFORE.items())), dict(sorted(AFTER.items()))), (points, found)
        assert ".apex" not in os.listdir(root)
        assert folders(root) == ({"sub"} if found.keys() == BEFORE.keys() else {"sub", "x", "x/y", "moved"})
        seen.add("before" if found.keys() == BEFORE.keys() else "after")
        points += 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # newer Pythons warn of fork beside threads; none runs here
@pytest.mark.parametrize("again", [False, True], ids=["killed", "killed again while recovering"])
def test_all_or_nothing_wherever_the_process_is_killed(tmp_path: Path, again: bool) -> None:
    points, seen = crash_points(tmp_path, again)
    assert points > 20 and seen == {"before", "after"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("planted", ["the plan is not read", "old files are not kept", "nothing is taken back"])
def test_a_transaction_without_one_of_its_parts_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    if planted == "the plan is not read":
        monkeypatch.setattr(changes, "read_plan", lambda stage, place: plans.Plan())
    elif planted == "old files are not kept":
        monkeypatch.setattr(changes, "_there", lambda folder, name: not name.startswith("old-"))
    else:
        monkeypatch.setattr(changes, "recover", lambda root: None)
    with pytest.raises(AssertionError):
        crash_points(tmp_path, again=False)


def test_other_things_below_our_folder_are_left_alone(tmp_path: Path) -> None:
    (fill(tmp_path) / ".apex").mkdir()
    (tmp_path / ".apex/notes").write_text("mine")
    assert asking(tmp_path)("fs.transaction", steps=STEPS).ok
    assert (tmp_path / ".apex/notes").read_text() == "mine" and os.listdir(tmp_path / ".apex") == ["notes"]


# --- against a model

PATHS = st.sampled_from(["a", "b", "d/a", "d/b", "e/f/g"])
OPS = st.one_of(
    st.builds(lambda p, t: {"op": "write", "path": p, "text": t}, PATHS, st.sampled_from(["1", "2\n", ""])),
    st.builds(lambda p: {"op": "delete", "path": p}, PATHS),
    st.builds(lambda p, t: {"op": "move", "path": p, "to": t}, PATHS, PATHS),
)


def modelled(files: dict[str, str], steps: list[dict[str, str]]) -> dict[str, str] | None:
    files = dict(files)
    for step in steps:
        path = step["path"]
        if step["op"] == "write":
            files[path] = step["text"]
        elif path not in files or step.get("to") in files:
            return None
        elif step["op"] == "delete":
            del files[path]
        else:
            files[step["to"]] = files.pop(path)
    return files


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(OPS, min_size=1, max_size=6), max_size=4))
def test_transactions_do_what_their_steps_say(tmp_path_factory: pytest.TempPathFactory, calls: list[Any]) -> None:
    root = tmp_path_factory.mktemp("w")
    ask, files = asking(root), {"a": "start"}
    (root / "a").write_text("start")
    for steps in calls:
        expected = modelled(files, steps)
        assert ask("fs.transaction", steps=steps).ok == (expected is not None)
        files = files if expected is None else expected
        assert tree(root) == dict(sorted(files.items()))
