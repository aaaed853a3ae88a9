"""Repositories that are none, damaged or hollow: one line with a stable code each, and nothing of them is left."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apex_framework.errors import GitError, WorkspaceError
from apex_framework.interfaces import Task
from apex_workspaces.checkout import CheckoutWorkspaces


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def objects(folder: Path) -> list[Path]:
    return [path for path in (folder / ".git/objects").rglob("*") if path.is_file()]


def damaged(folder: Path) -> None:
    for file in objects(folder):
        file.chmod(0o600)
        file.write_bytes(b"no object")


def hollow(folder: Path) -> None:
    for file in objects(folder):
        file.unlink()


def without_commits(folder: Path) -> None:
    shutil.rmtree(folder / ".git")
    git(folder, "init", "-q")


def without_head(folder: Path) -> None:
    (folder / ".git/HEAD").unlink()


def a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("x")


def a_pipe(folder: Path) -> None:
    (folder / ".git/HEAD").unlink()
    os.mkfifo(folder / ".git/HEAD")


def a_worktree(folder: Path) -> None:
    folder.rename(folder.with_name("whole"))
    git(folder.with_name("whole"), "worktree", "add", "-q", str(folder))


def a_borrower(folder: Path) -> None:
    (folder / ".git/objects/info").mkdir(exist_ok=True)
    (folder / ".git/objects/info/alternates").write_text("/nonexistent\n")


SPOILED: dict[Callable[[Path], None], str] = {
    shutil.rmtree: "E_REPO",
    a_file: "E_REPO",
    a_pipe: "E_REPO",
    a_worktree: "E_REPO",
    a_borrower: "E_REPO",
    without_head: "E_REPO",
    without_commits: "E_REF",
    hollow: "E_REF",
    damaged: "E_REF",
}


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CheckoutWorkspaces]:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    made = CheckoutWorkspaces()
    yield made
    made.close()
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "test_m.py").write_text("def test_x():\n    pass\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "base")
    return folder


def task(folder: Path | str, **run: object) -> Task:
    return Task("t1", "s", "dev", "i", "c", repo=str(folder), run={"tests": ["test_m.py"], **run})


@pytest.mark.parametrize(("spoil", "code"), SPOILED.items(), ids=[spoil.__name__ for spoil in SPOILED])
def test_what_is_no_repository_is_refused(
    provider: CheckoutWorkspaces, repository: Path, spoil: Callable[[Path], None], code: str
) -> None:
    spoil(repository)
    with pytest.raises(GitError) as caught:
        provider.create(task(repository))
    assert (caught.value.code, caught.value.refusal, caught.value.exit_status) == ("E0411", code, 4)
    assert str(caught.value).startswith("task t1: ") and "\n" not in str(caught.value)
    assert list(provider._scratch.iterdir()) == []


def test_a_setup_that_breaks_is_refused_and_leaves_nothing(provider: CheckoutWorkspaces, repository: Path) -> None:
    (repository / "conftest.py").write_text(
        "import os, time\nopen('left', 'w').close()\n"
        "if os.fork() == 0:\n    os.setsid(); time.sleep(1e6)\nraise RuntimeError('no database')\n"
    )
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "broken")
    workspace = provider.create(task(repository))
    with pytest.raises(WorkspaceError, match="cannot be collected") as caught:
        workspace.discover()
    assert (caught.value.code, caught.value.exit_status, "\n" in str(caught.value)) == ("E0407", 4, False)
    assert sorted(path.name for path in workspace.root.iterdir()) == ["conftest.py", "test_m.py"]
    assert not list(provider._scratch.rglob("left"))
    workspace.dispose()


def test_a_file_that_is_too_large_is_refused(
    provider: CheckoutWorkspaces, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apex_workspaces.state.MOST_BYTES", 1000)
    (repository / "large.bin").write_bytes(bytes(2000))
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "large")
    with pytest.raises(WorkspaceError, match=r"large\.bin is larger than 1,000 bytes"):
        provider.create(task(repository))
    assert list(provider._scratch.iterdir()) == []
