"""Tests of a repository that delete, fork, fill, print or hide: each ends in one typed result, and nothing of it is left."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apex_framework.interfaces import Task, TestReport
from apex_workspaces import running, state, supervisor
from apex_workspaces.checkout import CheckoutWorkspaces

HEAD = "import os, signal, sys, time, unittest\nclass T(unittest.TestCase):\n"
FINE = "    def test_z(self):\n        pass\n"
LIMITS = {"idle_s": 1.0, "cpu_s": 1, "disk": 32 * 1024**2, "most_output": 4 * 1024**2, "processes": 40}

HOSTILE = {
    "deletes the workspace": ("import shutil; shutil.rmtree(os.getcwd(), ignore_errors=True)", {"passed"}, ""),
    "fork bomb": ("while True:\n    try: os.fork()\n    except OSError: pass", {"timeout", "error"}, ""),
    "fills the disk": (
        "for i in range(10**6):\n    with open(f'f{i}', 'wb') as f: f.write(bytes(8 << 20))",
        {"timeout"},
        "wrote more than 33,554,432 bytes",
    ),
    "one huge file": ("f = open('f', 'wb')\nfor i in range(100): f.write(bytes(1 << 20))", {"timeout", "error"}, ""),
    "prints without end": ("while True: os.write(1, bytes(1 << 20))", {"timeout"}, "printed more than 4,194,304 bytes"),
    "sleeps": ("time.sleep(1e6)", {"timeout"}, "nothing happened"),
    "spins": ("sum(iter(int, 1))", {"timeout"}, "CPU time"),
    "exits": ("os._exit(0)", {"error"}, "exited with status 0"),
    "kills itself": ("os.kill(os.getpid(), 9)", {"error"}, "SIGKILL"),
    "daemon": (
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.closerange(0, 60); time.sleep(1e6)\n    os._exit(0)\nos.wait()",
        {"passed"},
        "",
    ),
    "deaf children": (
        "for _ in range(5):\n    if os.fork() == 0:\n        for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n        time.sleep(1e6)",
        {"passed"},
        "",
    ),
    "hidden child": (
        "if os.fork() == 0:\n    os.setsid(); os.execve('/bin/sleep', ['hidden', '1000017'], {})",
        {"passed"},
        "",
    ),
    "closes every descriptor": ("os.closerange(0, 200)", {"error"}, ""),
    "folders without end": (
        "for _ in range(400):\n    os.mkdir('d'); os.chdir('d')\nopen('x', 'w').close(); os.chmod('..', 0)",
        {"passed"},
        "",
    ),
    "a link in place of the workspace": (
        "os.rename('.git' if 0 else 'pkg', 'q'); os.symlink('/etc', 'pkg')",
        {"passed"},
        "",
    ),
}
SLOW = (
    "fork bomb",
    "one huge file",
    "deaf children",
    "spins",
    "kills itself",
    "closes every descriptor",
    "hidden child",
)


@pytest.fixture(scope="module")
def provider() -> Iterator[CheckoutWorkspaces]:
    made = CheckoutWorkspaces()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def mark_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other test runs on this machine are no concern of these tests."""
    monkeypatch.setattr(running, "_MARK", f"APEX_TEST_RUN_{os.getpid()}")


def task(code: str) -> Task:
    lines = "\n".join(f"        {line}" for line in code.splitlines())
    tests = f"{HEAD}    def test_a(self):\n{lines}\n{FINE}"
    files = {"pkg/m.py": "", "tests/test_a.py": tests}
    return Task(
        "t", "s", "dev", "i", "c", files=files, run={"runner": "unittest", "tests": ["tests/test_a.py"], **LIMITS}
    )


@pytest.fixture
def run(provider: CheckoutWorkspaces) -> Iterator[Callable[[str], TestReport]]:
    def go(code: str) -> TestReport:
        workspace = provider.create(task(code))
        report = workspace.run_tests(timeout_s=30.0)
        assert workspace._runs is not None
        left = state.Folder(workspace._runs[0].work).read()
        assert left == state.Folder(workspace.root).read()
        assert not workspace._runs[0].tmp.exists()
        workspace.dispose()
        return report

    yield go
    assert marked() == []
    assert not [pid for pid in pids() if b"1000017" in told(pid, "cmdline")]


def marked() -> list[str]:
    """Every process that carries the mark of a test run."""
    return [pid for pid in pids() if running._MARK.encode() in told(pid, "environ")]


def pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def told(pid: str, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("code", "statuses", "detail"),
    [pytest.param(*case, id=name, marks=[pytest.mark.slow] if name in SLOW else []) for name, case in HOSTILE.items()],
)
def test_hostile_tests_end_typed_and_leave_nothing(
    run: Callable[[str], TestReport], code: str, statuses: set[str], detail: str
) -> None:
    first, second = run(code).outcomes
    assert first.status in statuses, first
    assert detail in first.detail
    assert second.status == "passed", second


def test_what_is_left_when_orphans_are_not_looked_for(
    provider: CheckoutWorkspaces, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same daemon, with a supervisor that ends only the process group of the tests."""
    planted = tmp_path / "apex_workspaces"
    shutil.copytree(Path(supervisor.__file__).parent, planted, ignore=shutil.ignore_patterns("__pycache__"))
    text = (planted / "supervisor.py").read_text()
    call = "        reaper.end_all(process.child.pid)\n        with"
    assert call in text
    ends = "        os.killpg(process.child.pid, 9); os.waitpid(process.child.pid, 0)\n        with"
    (planted / "supervisor.py").write_text(text.replace(call, ends))
    monkeypatch.setattr(running, "_HERE", str(planted))
    workspace = provider.create(task(HOSTILE["daemon"][0]))
    workspace.run_tests(timeout_s=30.0)
    left = marked()
    for pid in left:
        os.kill(int(pid), signal.SIGKILL)
    assert left != []
    workspace.dispose()
