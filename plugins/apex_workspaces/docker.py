"""A Docker engine through its command line: images that are there, files out of them, and one confined run at a time."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import select
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from apex_framework.errors import EnvironmentProblem, WorkspaceError

from . import scratch
from .supervisor import Growth

_SCRATCH, _MACHINE = "apex-framework.scratch", "apex-framework.machine"
_PATIENCE_S: Final = 120.0
_COPY_S: Final = 1800.0
_TAIL: Final = 600
ENGINE_FAILED, NOT_STARTED = 125, (126, 127)
"""Statuses with which ``docker run`` says that the engine failed, and that the command could not be started."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    memory: int
    processes: int
    cpu_s: int
    disk: int
    most_output: int
    keep_output: int = 0


@dataclass(slots=True)
class Ended:
    """How a run ended: ``why`` it was stopped, or nothing; the end of what it printed, and its beginning."""

    status: int = -1
    why: str = ""
    tail: bytes = b""
    log: bytearray = field(default_factory=bytearray)


class Engine:
    """``held`` is always the scratch folder of the host: containers carry its name, and go when nobody has it any more."""

    def __init__(self, program: str = "docker") -> None:
        self._program = program

    def check(self) -> None:
        """Raises EnvironmentProblem when there is no program, or no engine answers it."""
        if shutil.which(self._program) is None:
            raise EnvironmentProblem(
                f"there is no program {self._program!r} here", "install Docker, or use the workspaces 'uv'"
            )
        done = self._do(["version", "--format", "{{.Server.Version}}"])
        if done.returncode or not done.stdout.strip():
            raise EnvironmentProblem(f"no Docker engine answers: {_line(done)}", "start it, or use the workspaces 'uv'")

    def check_image(self, image: str) -> None:
        """Raises WorkspaceError when it is not here: nothing is fetched."""
        if self._do(["image", "inspect", "--format", "{{.Id}}", image]).returncode:
            raise WorkspaceError(f"there is no image {image} here", f"docker pull {image}")

    def copy_out(self, image: str, path: str, into: Path, held: Path) -> None:
        """A folder of an image, which is not started. Raises WorkspaceError."""
        name = _name()
        command = ["create", "--name", name, *self._labels(held), "--pull", "never", "--network", "none", image]
        try:
            for words in (command, ["cp", f"{name}:{path}/.", str(into)]):
                done = self._do(words, patience_s=_COPY_S)
                if done.returncode:
                    raise WorkspaceError(f"{path} cannot be copied out of {image}: {_line(done)}")
        finally:
            self._do(["rm", "--force", name])

    def run(
        self,
        image: str,
        command: Sequence[str],
        *,
        folder: Path,
        at: str,
        env: Mapping[str, str],
        limits: Limits,
        wall_s: float,
        held: Path,
    ) -> Ended:
        """Run a command with ``folder`` mounted ``at``, everything else read-only, no network; blocking; the container is gone then."""
        name = _name()
        words = [
            *("run", "--rm", "--init", "--name", name, *self._labels(held), "--pull", "never"),
            *("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--user", f"{os.getuid()}:{os.getgid()}", "--read-only"),
            *("--tmpfs", f"/tmp:rw,exec,nosuid,size={limits.disk}"),
            *("--memory", str(limits.memory), "--memory-swap", str(limits.memory)),
            *("--pids-limit", str(limits.processes), "--ulimit", f"fsize={limits.disk}", "--ulimit", "core=0"),
            *("--ulimit", f"cpu={max(1, limits.cpu_s)}"),
            *("--mount", f"type=bind,source={folder},target={at}", "--workdir", at),
            *(word for key, value in env.items() for word in ("--env", f"{key}={value}")),
            *("--entrypoint", command[0], image, *command[1:]),
        ]
        child = subprocess.Popen(
            [self._program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            bufsize=0,
        )
        ended = Ended()
        try:
            ended.why = _attend(child, ended, Growth([str(folder)], limits.disk), limits, time.monotonic() + wall_s)
        finally:
            # Whatever became of the client: it is the engine that has the container.
            if ended.why or child.poll() is None:
                self._do(["kill", name])
            self._do(["rm", "--force", name])
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(10.0)
            if child.poll() is None:
                child.kill()
            ended.status = child.wait()
            assert child.stdout is not None
            child.stdout.close()
        return ended

    def sweep(self) -> list[str]:
        """Remove containers of this machine whose host is gone; returns their ids."""
        only = ["--filter", f"label={_MACHINE}={platform.node()}"]
        done = self._do(["ps", "--all", *only, "--format", f'{{{{.ID}}}} {{{{.Label "{_SCRATCH}"}}}}'])
        left = [line.split(" ", 1) for line in done.stdout.decode("utf-8", "replace").splitlines() if " " in line]
        gone = [container for container, place in left if not scratch.in_use(Path(place))]
        if gone:
            self._do(["rm", "--force", *gone])
        return gone

    def _labels(self, held: Path) -> list[str]:
        return ["--label", f"{_SCRATCH}={held}", "--label", f"{_MACHINE}={platform.node()}"]

    def _do(self, words: Sequence[str], *, patience_s: float = _PATIENCE_S) -> subprocess.CompletedProcess[bytes]:
        command = [self._program, *words]
        try:
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=patience_s, check=False
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 1, b"", f"no answer in {patience_s:g} s".encode())
        except OSError as error:
            return subprocess.CompletedProcess(command, 1, b"", (error.strerror or "cannot be started").encode())


def _attend(child: subprocess.Popen[bytes], ended: Ended, grown: Growth, limits: Limits, deadline: float) -> str:
    """Take in what is printed until the client ends; why the run is to be stopped, or nothing."""
    assert child.stdout is not None
    fd, printed = child.stdout.fileno(), 0
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLHUP)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return "stopped: the run's time was over"
        if poll.poll(min(100.0, left * 1000)):
            data = os.read(fd, 1 << 20)
            if not data:
                break
            printed += len(data)
            ended.tail = (ended.tail + data)[-_TAIL:]
            ended.log += data[: max(0, limits.keep_output - len(ended.log))]
        if printed > limits.most_output:
            return f"stopped: printed more than {limits.most_output:,} bytes"
        if why := grown.look():
            return why
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(max(0.0, deadline - time.monotonic()))
        return ""
    return "stopped: the run's time was over"


def _name() -> str:
    return f"apex-{secrets.token_hex(8)}"


def _line(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = [line for line in (done.stderr or done.stdout).decode("utf-8", "replace").splitlines() if line.strip()]
    told = lines[-1] if lines else f"it ended with status {done.returncode}"
    return "".join(c for c in told if c.isprintable())[:300]
