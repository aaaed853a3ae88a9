"""Checkouts: conformance, a repository without its future, savepoints with modes and links, and bad repositories."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import Task
from apex_framework.testing.workspace import check_workspace
from apex_workspaces import removing, state
from apex_workspaces.checkout import CheckoutWorkspaces

Make = Callable[..., Task]


@pytest.fixture
def provider() -> Iterator[CheckoutWorkspaces]:
    made = CheckoutWorkspaces()
    yield made
    made.close()


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "pkg").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "pkg/m.py").write_text("X = 1\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "data.bin").write_bytes(bytes(range(256)))
    os.symlink("pkg/m.py", folder / "link.py")
    (folder / "test_m.py").write_text("from pkg.m import X\n\ndef test_x():\n    assert X == 1\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "base")
    return folder


def of(folder: Path, commit: str = "", **run: object) -> Task:
    return Task(
        "t1", "s", "dev", "issue", "c", repo=str(folder), base_commit=commit, run={"tests": ["test_m.py"], **run}
    )


def test_conformance() -> None:
    check_workspace(CheckoutWorkspaces)


def test_nothing_after_the_base_is_there(provider: CheckoutWorkspaces, repository: Path) -> None:
    base = git(repository, "rev-parse", "HEAD")
    (repository / "answer.txt").write_text("the answer")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "future")
    workspace = provider.create(of(repository, base))
    assert sorted(p.name for p in workspace.root.iterdir()) == ["data.bin", "link.py", "pkg", "run.sh", "test_m.py"]
    assert os.readlink(workspace.root / "link.py") == "pkg/m.py"
    assert os.access(workspace.root / "run.sh", os.X_OK)
    assert [o.status for o in workspace.run_tests().outcomes] == ["passed"]
    assert b"the answer" not in b"".join(p.read_bytes() for p in provider._scratch.rglob("*") if p.is_file())


def test_a_diff_has_modes_links_and_bytes(provider: CheckoutWorkspaces, repository: Path, tmp_path: Path) -> None:
    workspace = provider.create(of(repository))
    assert workspace.diff() == ""
    (workspace.root / "pkg/m.py").write_text("X = 2\n")
    (workspace.root / "run.sh").chmod(0o644)
    (workspace.root / "data.bin").write_bytes(bytes(range(255, -1, -1)))
    (workspace.root / "link.py").unlink()
    os.symlink("run.sh", workspace.root / "new.py")
    patch = tmp_path / "change.patch"
    patch.write_text(workspace.diff())
    git(repository, "apply", str(patch))
    assert state.Folder(workspace.root).read() == {
        path: item for path, item in state.Folder(repository).read().items() if not path.startswith(".git/")
    }


def test_rollback_restores_modes_and_links(provider: CheckoutWorkspaces, repository: Path) -> None:
    workspace = provider.create(of(repository))
    before = state.Folder(workspace.root).read()
    (workspace.root / "run.sh").chmod(0o644)
    (workspace.root / "link.py").unlink()
    (workspace.root / "link.py").mkdir()
    (workspace.root / "link.py/x").write_text("x")
    (workspace.root / "pkg/m.py").unlink()
    (workspace.root / "pkg").rmdir()
    os.symlink("/etc", workspace.root / "pkg")
    workspace.rollback()
    assert state.Folder(workspace.root).read() == before


NAMES = st.sampled_from(["a", "b", "d/a", "d/e/f", "d", "x y", "é", "d/e"])
ITEMS = st.tuples(st.sampled_from([state.FILE, state.PROGRAM, state.LINK]), st.binary(min_size=1, max_size=4))


def consistent(found: dict[str, tuple[int, bytes]]) -> dict[str, tuple[int, bytes]]:
    folders = {path[:at] for path in found for at in range(len(path)) if path[at] == "/"}
    return {
        path: (mode, data.replace(b"\0", b"0").replace(b"/", b"_") if mode == state.LINK else data)
        for path, (mode, data) in found.items()
        if path not in folders
    }


@settings(max_examples=60, deadline=None)
@given(first=st.dictionaries(NAMES, ITEMS), second=st.dictionaries(NAMES, ITEMS))
def test_restoring_makes_any_state_of_any_other(
    first: dict[str, tuple[int, bytes]], second: dict[str, tuple[int, bytes]]
) -> None:
    first, second = consistent(first), consistent(second)
    root = Path(tempfile.mkdtemp(prefix="apex-state-"))
    try:
        folder = state.Folder(root)
        folder.write(first)
        assert state.Folder(root).read() == first
        folder.restore(second)
        assert folder.read() == second == state.Folder(root).read()
        folder.restore(first)
        assert state.Folder(root).read() == first
    finally:
        removing.remove(root)


@pytest.mark.parametrize("fine", [state._FINE_TIMES, False])
def test_a_change_of_the_same_size_right_after_writing_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fine: bool
) -> None:
    monkeypatch.setattr(state, "_FINE_TIMES", fine)
    folder = state.Folder(tmp_path)
    for number in range(200):
        folder.restore({"a": (state.FILE, b"%03d" % number)})
        (tmp_path / "a").write_bytes(b"new")
        assert folder.read() == {"a": (state.FILE, b"new")}


def with_submodule(folder: Path) -> None:
    other = folder.parent / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-qm", "x", "--allow-empty")
    git(folder, "submodule", "--quiet", "add", str(other), "sub")
    git(folder, "commit", "-qm", "submodule")


def with_stand_in(folder: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n"
    (folder / "big.bin").write_text(pointer)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "lfs")


def with_link_outside(folder: Path) -> None:
    os.symlink("/etc/passwd", folder / "out")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "link")


@pytest.mark.parametrize(
    ("spoil", "word", "allow"),
    [
        (with_submodule, "submodules", "submodules"),
        (with_stand_in, "Git LFS", "lfs"),
        (with_link_outside, "out of it", "outside_links"),
    ],
)
def test_what_would_be_missing_is_said(
    provider: CheckoutWorkspaces, repository: Path, spoil: Callable[[Path], None], word: str, allow: str
) -> None:
    spoil(repository)
    before = sorted(provider._scratch.rglob("*"))
    with pytest.raises(WorkspaceError, match=word) as caught:
        provider.create(of(repository))
    assert "\n" not in str(caught.value)
    assert allow in caught.value.remedy and caught.value.code == "E0407"
    assert sorted(provider._scratch.rglob("*")) == before
    assert (provider.create(of(repository, allow=[allow])).root / "test_m.py").exists()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"repo": "/nonexistent"}, "/nonexistent"),
        ({"repo": "/"}, "not a git repository"),
        ({"repo": "ssh://h/x"}, "ssh"),
        ({"repo": "https://h/x"}, "network"),
        ({"base_commit": "0" * 40}, "no commit"),
        ({"base_commit": "--upload-pack=x"}, "not a name"),
        ({"run": {"runner": "nose"}}, "unknown runner"),
        ({"run": {"tets": []}}, "no entry 'tets'"),
        ({"run": {"cpu_s": "1"}}, "'cpu_s'"),
        ({"run": {"tests": ["../x"]}}, "not a path inside"),
        ({"run": {"runner": "command"}}, "go together"),
        ({"run": {"packages": ["x"]}}, "environment of its own"),
    ],
)
def test_bad_tasks_are_one_line_and_leave_nothing(
    provider: CheckoutWorkspaces, repository: Path, change: dict[str, object], word: str
) -> None:
    with pytest.raises(WorkspaceError, match=word) as caught:
        provider.create(replace(of(repository), **change))  # type: ignore[arg-type]  # fields of a task
    assert str(caught.value).count("\n") == 0
    assert sorted(p.name for p in provider._scratch.iterdir()) == []


def test_a_broken_setup_is_said(provider: CheckoutWorkspaces, repository: Path) -> None:
    (repository / "conftest.py").write_text("raise RuntimeError('no database')\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "broken")
    with pytest.raises(WorkspaceError, match="cannot be collected") as caught:
        provider.create(of(repository)).discover()
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_imported_stands_for_its_tests(provider: CheckoutWorkspaces, repository: Path) -> None:
    workspace = provider.create(of(repository))
    (workspace.root / "pkg/m.py").write_text("X = \n")
    assert workspace.discover() == ["test_m.py"]
    (outcome,) = workspace.run_tests().outcomes
    assert (outcome.id, outcome.status) == ("test_m.py", "error")
    assert "SyntaxError" in outcome.detail


def test_tests_are_collected_once_per_content(provider: CheckoutWorkspaces, repository: Path) -> None:
    workspace = provider.create(of(repository))
    assert workspace.discover() == ["test_m.py::test_x"]
    collected = []
    workspace._collect = lambda present: collected.append(1) or ("again",)  # type: ignore[method-assign, func-returns-value]  # counts calls
    assert workspace.discover() == ["test_m.py::test_x"]
    (workspace.root / "test_m.py").write_text("def test_y(): pass\n")
    assert workspace.discover() == ["again"]
    assert workspace.discover() == ["again"]
    assert collected == [1]


def test_a_command_passes_by_its_status(provider: CheckoutWorkspaces, repository: Path) -> None:
    command = ["{python}", "-c", "import sys; print('seen'); sys.exit(sys.argv[1] != 'good')", "{test}"]
    workspace = provider.create(of(repository, runner="command", command=command, tests=["good", "bad"]))
    outcomes = workspace.run_tests().outcomes
    assert [(o.id, o.status) for o in outcomes] == [("good", "passed"), ("bad", "failed")]
    assert "exited with status 1\nseen" in outcomes[1].detail
    whole = provider.create(of(repository, runner="command", command=["test", "-f", "run.sh"]))
    assert [(o.id, o.status) for o in whole.run_tests().outcomes] == [("command", "passed")]


def test_what_the_repository_asks_of_pytest_is_left_out(provider: CheckoutWorkspaces, repository: Path) -> None:
    workspace = provider.create(of(repository))
    (workspace.root / "pytest.ini").write_text("[pytest]\naddopts = --collect-only --junitxml=report.xml\n")
    assert [o.status for o in workspace.run_tests().outcomes] == ["passed"]
    assert not (workspace.root / "report.xml").exists()


@pytest.mark.parametrize("name", ["json.py", "random.py", "pytest.py"])
def test_a_file_named_like_a_module_is_not_taken_for_it(
    provider: CheckoutWorkspaces, repository: Path, name: str
) -> None:
    workspace = provider.create(of(repository))
    (workspace.root / name).write_text("raise SystemExit('planted')\n")
    assert [o.status for o in workspace.run_tests(["test_m.py::test_x"]).outcomes] == ["passed"]


STARTS = """
import os, subprocess, sys, tempfile, unittest

class T(unittest.TestCase):
    def test_far_away(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-c", "import inner, given"], cwd=folder, check=True)
"""


def test_pythons_that_tests_start_find_the_repository(provider: CheckoutWorkspaces, tmp_path: Path) -> None:
    (tmp_path / "given.py").write_text("")
    files = {"src/inner.py": "", "test_a.py": STARTS}
    run = {"runner": "unittest", "tests": ["test_a.py"], "path": ["src"], "env": {"PYTHONPATH": str(tmp_path)}}
    workspace = provider.create(Task("t", "s", "dev", "i", "c", files=files, run=run))
    assert [(o.status, o.detail) for o in workspace.run_tests().outcomes] == [("passed", "")]
