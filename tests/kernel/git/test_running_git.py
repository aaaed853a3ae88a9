"""One git command: what it is told, how long it may take, how much it may say, and that nothing of it stays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from apex_framework.errors import GitError
from apex_framework.git import GitLimits, run_git

Fake = Callable[[str], Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts a program of this text in git's place."""

    def make(text: str) -> Path:
        program = tmp_path / "bin/git"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return tmp_path

    return make


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False
    return state in "ZX"


def assert_gone(file: Path) -> None:
    pid = int(file.read_text())
    until = time.monotonic() + 10
    while not gone(pid):
        assert time.monotonic() < until, f"process {pid} lives on"
        time.sleep(0.01)


LINGERING = {
    "hangs": "exec sleep 1000",
    "hangs with its output closed": "exec >&- 2>&-; sleep 1000",
    "leaves a child with its output": "echo done",
}


@pytest.mark.parametrize("name", LINGERING)
def test_what_takes_too_long_is_ended_with_all_its_children(name: str, fake: Fake) -> None:
    place = fake(f"sleep 1000 & echo $! > {{place}}/pid\n{LINGERING[name]}".replace("{place}", "$PLACE"))
    text = (place / "bin/git").read_text().replace("$PLACE", str(place))
    (place / "bin/git").write_text(text)
    with pytest.raises(GitError, match=r"longer than 2 s") as caught:
        run_git(place, ["x"], limits=GitLimits(seconds=2.0))
    assert caught.value.refusal == "E_LIMIT"
    assert_gone(place / "pid")


def test_what_prints_too_much_is_ended(fake: Fake) -> None:
    place = fake("echo $$ > ${0%/bin/git}/pid; exec yes")
    with pytest.raises(GitError, match="more than 100,000 bytes") as caught:
        run_git(place, ["x"], limits=GitLimits(output=100_000))
    assert caught.value.refusal == "E_LIMIT"
    assert_gone(place / "pid")


def test_errors_are_one_line_however_long_they_are(fake: Fake) -> None:
    place = fake("head -c 3000000 /dev/zero | tr '\\0' 'e' >&2; exit 3")
    with pytest.raises(GitError) as caught:
        run_git(place, ["x"])
    assert caught.value.refusal == "E_GIT" and len(caught.value.cause) == 300
    fake("printf 'hint\\nfatal: bad \\033[2J\\r thing\\n' >&2; exit 128")
    with pytest.raises(GitError, match=r"fatal: bad \?\[2J"):
        run_git(place, ["x"])
    fake("exit 7")
    with pytest.raises(GitError, match="status 7"):
        run_git(place, ["x"])
    assert run_git(place, ["x"], ok=(7,)) == b""


def test_input_is_given_whole_or_not_read_at_all(fake: Fake) -> None:
    place = fake("exec cat")
    data = os.urandom(5_000_000)
    assert run_git(place, ["x"], stdin=data) == data
    fake("exit 0")
    assert run_git(place, ["x"], stdin=data) == b""


def test_the_environment_is_ours_alone(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    place = fake("exec env")
    for name in ("GIT_TRACE", "GIT_SSH", "SECRET_TOKEN", "GIT_CONFIG_COUNT", "https_proxy", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, "planted")
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}::relative")
    told = dict(line.split("=", 1) for line in run_git(place, ["x"]).decode().splitlines() if "=" in line)
    assert "planted" not in told.values()
    assert told["GIT_ALLOW_PROTOCOL"] == "none" and told["GIT_TERMINAL_PROMPT"] == "0" and told["HOME"] == os.devnull
    assert all(os.path.isabs(part) for part in told["PATH"].split(":"))
    told = dict(
        line.split("=", 1) for line in run_git(place, ["x"], protocols="https").decode().splitlines() if "=" in line
    )
    assert told["https_proxy"] == "planted" and told["GIT_ALLOW_PROTOCOL"] == "https"


def test_without_git_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitError, match="no git program") as caught:
        run_git(tmp_path, ["x"])
    assert caught.value.remedy == "install git"


def test_nothing_stays_open(fake: Fake) -> None:
    place = fake("cat; echo x >&2; exit 1")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(5):
        with pytest.raises(GitError):
            run_git(place, ["x"], stdin=b"data")
    if before:
        assert len(os.listdir("/proc/self/fd")) == before
