"""The ``local`` workspaces: whatever was done to the folder, a roll-back, a fork and a commit say what they promise."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import Task
from apex_workspaces import state, tree
from apex_workspaces.local import LocalWorkspace, LocalWorkspaces

MakeTask = Callable[..., Task]

NAMES = st.sampled_from(["pkg/m.py", "pkg/new.py", "tests/test_a.py", "a", "a/b", "pkg"])
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def put(root: Path, name: str, make: Callable[[Path], object]) -> None:
    """Something under a name, and nothing in its way."""
    path = root
    for part in name.split("/"):
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            path.unlink()
        path.mkdir(exist_ok=True)
        path = path / part
    if path.is_symlink() or path.is_file() or (path.exists() and not path.is_dir()):
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
    make(path)


DEEDS: dict[str, Callable[[Path], object]] = {
    "file": lambda path: path.write_bytes(b"other"),
    "same": lambda path: path.write_bytes(b"VALUE = 1\n"),
    "program": lambda path: (path.write_bytes(b"#!"), path.chmod(0o755)),
    "closed": lambda path: (path.write_bytes(b"x"), path.chmod(0)),
    "link": lambda path: path.symlink_to("/etc"),
    "pipe": os.mkfifo,
    "folder": lambda path: path.mkdir(),
    "nothing": lambda path: None,
}


def found(root: Path) -> dict[str, tuple[int, bytes]]:
    """Type, mode and content of all that is below a folder."""
    seen = {}
    for folder, folders, names in os.walk(root):
        for name in names + folders:
            path = Path(folder, name)
            info = path.lstat()
            seen[str(path.relative_to(root))] = (
                info.st_mode,
                path.read_bytes() if stat.S_ISREG(info.st_mode) else b"",
            )
    return seen


def worked_on(workspace: LocalWorkspace, deeds: list[tuple[str, str]]) -> None:
    for name, deed in deeds:
        put(workspace.root, name, DEEDS[deed])


@given(st.lists(st.tuples(NAMES, st.sampled_from(sorted(DEEDS))), max_size=6))
@QUICK
def test_a_rollback_brings_back_the_creation_whatever_was_done(
    provider: LocalWorkspaces, make_task: MakeTask, deeds: list[tuple[str, str]]
) -> None:
    workspace = provider.create(make_task("", "VALUE = 1\n"))
    created = found(workspace.root)
    worked_on(workspace, deeds)
    workspace.rollback()
    assert found(workspace.root) == created
    workspace.dispose()
    assert not workspace.root.exists()


@given(st.lists(st.tuples(NAMES, st.sampled_from(sorted(DEEDS.keys() - {"closed"}))), max_size=6))
@QUICK
def test_a_fork_has_the_present_files_and_is_its_own_savepoint(
    provider: LocalWorkspaces, make_task: MakeTask, deeds: list[tuple[str, str]]
) -> None:
    workspace = provider.create(make_task("", "VALUE = 1\n"))
    worked_on(workspace, deeds)
    fork = workspace.fork()
    files = {
        name: content
        for name, (mode, content) in found(workspace.root).items()
        if stat.S_ISREG(mode)
    }  # fmt: skip
    forked = found(fork.root)
    assert {name: content for name, (mode, content) in forked.items() if stat.S_ISREG(mode)} == files
    assert not [name for name, (mode, _) in forked.items() if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))]
    put(fork.root, "pkg/m.py", DEEDS["file"])
    fork.rollback()
    assert found(fork.root) == forked
    assert fork.commit() == workspace.commit() == tree.digest(files)
    workspace.dispose()
    fork.dispose()


def test_what_a_link_points_at_is_not_touched(provider: LocalWorkspaces, make_task: MakeTask, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("outside")
    workspace = provider.create(make_task("", "VALUE = 1\n"))
    put(workspace.root, "pkg", lambda path: path.symlink_to(tmp_path))
    assert "pkg/m.py" not in workspace.fork()._read()
    workspace.rollback()
    put(workspace.root, "pkg", lambda path: path.symlink_to(tmp_path))
    workspace.dispose()
    assert (tmp_path / "m.py").read_text() == "outside"


def test_planted_a_restore_that_trusts_sizes_alone_shows(
    provider: LocalWorkspaces, make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = state._taken

    def by_size(folder: int, name: str, path: str, info: os.stat_result, *rest: object) -> object:
        was = state._Seen((0, 0, 0, 0, 0), (state.FILE, b"VALUE = 1\n"))
        return was if info.st_size == len(was.item[1]) else taken(folder, name, path, info, *rest)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(state, "_taken", by_size)
    workspace = provider.create(make_task("", "VALUE = 1\n"))
    put(workspace.root, "pkg/m.py", lambda path: path.write_bytes(b"VALUE = 2\n"))
    workspace.rollback()
    assert (workspace.root / "pkg/m.py").read_bytes() != b"VALUE = 1\n"


@pytest.mark.parametrize("path", ["", ".", "..", "/a", "a/", "a//b", "./a", "a/./b", "a/../b", "a\0b"])
def test_a_path_that_is_not_normal_makes_no_workspace(provider: LocalWorkspaces, path: str) -> None:
    with pytest.raises(WorkspaceError, match="not a normal relative path"):
        provider.create(Task("t", "s", "dev", "i", "c", files={path: ""}, run={}))


@pytest.mark.parametrize("files", [{"a": "", "a/b": ""}, {"a" * 300: ""}], ids=["file and folder", "too long a name"])
def test_files_that_cannot_be_written_are_said_and_nothing_is_left(
    provider: LocalWorkspaces, files: dict[str, str]
) -> None:
    before = set(provider._scratch.iterdir())
    with pytest.raises(WorkspaceError, match="its files cannot be written"):
        provider.create(Task("t", "s", "dev", "i", "c", files=files, run={}))
    assert set(provider._scratch.iterdir()) == before
