"""Nothing is left of a host that was killed: its processes end, and the next one that makes workspaces removes its folders."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import Task, WorkspaceProvider
from apex_workspaces import reaper, scratch
from apex_workspaces.checkout import CheckoutWorkspaces
from apex_workspaces.local import LocalWorkspaces
from apex_workspaces.uv import UvWorkspaces

MAKERS = {
    "local": "from apex_workspaces.local import LocalWorkspaces as Made",
    "checkout": "from apex_workspaces.checkout import CheckoutWorkspaces as Made",
    "uv": "import functools, pathlib\nfrom apex_workspaces.uv import UvWorkspaces\n"
    "Made = functools.partial(UvWorkspaces, cache=pathlib.Path({cache!r}))",
}
HOST = """
import pathlib
from apex_framework.interfaces import Task
{maker}
tests = {tests!r}
files = {{"tests/test_a.py": tests, "a/b/c.txt": "x"}}
run = {{"runner": "unittest", "tests": ["tests/test_a.py"]}}
workspace = Made({options}).create(Task("t", "s", "dev", "i", "c", files=files, run=run))
{then}
"""
SLEEPS = """
import os, sys, time, unittest
class T(unittest.TestCase):
    def test_a(self):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                sys.stdout.write(''); time.sleep(1e6)
            os._exit(0)
        os.wait()
        open({flag!r}, 'w').close()
        time.sleep(1e6)
"""


@pytest.mark.parametrize("name", MAKERS)
def test_a_host_killed_while_its_tests_run_leaves_nothing(tmp_path: Path, name: str) -> None:
    flag, cache = tmp_path / "run/flag", tmp_path / "cache"
    flag.parent.mkdir()
    # A local workspace lets tests write below their own folders only.
    where = "started" if name == "local" else str(flag)
    then = "workspace.run_tests(timeout_s=60.0)"
    options = "idle_s=60.0" if name == "local" else ""
    script = HOST.format(
        maker=MAKERS[name].format(cache=str(cache)), tests=SLEEPS.format(flag=where), options=options, then=then
    )
    with started(script, flag.parent) as host:
        name_of_flag = "started" if name == "local" else "flag"
        until(lambda: any(name_of_flag in files for _, _, files in os.walk(flag.parent)))
        below = set(reaper.descendants(host.pid))
        assert below
        host.kill()
        host.wait()
        until(lambda: not {pid for pid in below if running(pid)})
        swept(flag.parent, host.pid)


@pytest.mark.parametrize("name", MAKERS)
def test_a_host_killed_between_two_calls_leaves_nothing(tmp_path: Path, name: str) -> None:
    place = tmp_path / "run"
    place.mkdir()
    then = "workspace.fork(); print('made', flush=True); input()"
    script = HOST.format(maker=MAKERS[name].format(cache=str(tmp_path / "cache")), tests="", options="", then=then)
    with started(script, place) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"made\n"
        host.kill()
        host.wait()
        swept(place, host.pid)


@contextlib.contextmanager
def started(script: str, place: Path) -> Iterator[subprocess.Popen[bytes]]:
    variables = {**os.environ, "TMPDIR": str(place)}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables) as host:
        try:
            yield host
        finally:
            host.kill()


def swept(place: Path, pid: int) -> None:
    assert list(place.glob(f"apex-ws-{pid}-*")) != []
    scratch.sweep(place)
    assert list(place.glob("apex-*")) == []


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_folder_in_use_is_not_swept_though_its_process_is_not_known_here(tmp_path: Path) -> None:
    """A host in another container, with which folders are shared but process numbers are not, is alive all the same."""
    theirs = tmp_path / "apex-ws-999999999-x"
    (theirs / "w1").mkdir(parents=True)
    fd = os.open(theirs, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert scratch.sweep(tmp_path) == []
    assert (theirs / "w1").exists()
    os.close(fd)
    assert scratch.sweep(tmp_path) == [theirs]
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_takes_nothing_but_what_workspaces_made(tmp_path: Path) -> None:
    for name in ("apex-bench-1-x", "apex-ws-x-1", "apex-ws-", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "apex-ws-999999999-link").symlink_to(tmp_path / "other")
    (tmp_path / "apex-ws-999999999-file").write_text("x")
    before = sorted(tmp_path.iterdir())
    assert scratch.sweep(tmp_path) == []
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("make", [LocalWorkspaces, CheckoutWorkspaces, UvWorkspaces])
def test_a_workspace_that_cannot_be_written_leaves_nothing(
    make: Callable[[], WorkspaceProvider], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    provider = make()
    try:
        (place,) = tmp_path.iterdir()
        before = sorted(place.rglob("*"))
        files = {"a/b": "a file", "a/b/c": "a file in a folder of the same name"}
        with pytest.raises(WorkspaceError, match="cannot be written") as caught:
            provider.create(Task("t", "s", "dev", "i", "c", files=files, run={"runner": "unittest"}))
        assert "\n" not in str(caught.value)
        assert sorted(place.rglob("*")) == before
    finally:
        provider.close()
    assert list(tmp_path.iterdir()) == []
