"""The host's side of the fork server: starts it when first needed, asks it, replaces it when it dies."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import secrets
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces.sandbox import Sandbox

_START = "import sys;sys.path[:0]=sys.argv[1:];sys.argv=['tests'];from apex_workspaces.zygote import main;main()"
_MARK = "APEX_ZYGOTE"


class ForkServer:
    """One helper process. Not thread-safe: its owner asks one thing at a time."""

    def __init__(self, sandbox: Sandbox, scratch: Path) -> None:
        self._sandbox = sandbox
        self._scratch = scratch
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = ""
        self._owner = os.getpid()

    @property
    def pid(self) -> int | None:
        """Process id of the helper, if it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer, or None when the helper died or stayed silent. Raises WorkspaceError when it cannot start."""
        if self._owner != os.getpid():
            self._process, self._owner = None, os.getpid()
        if self.pid is None:
            self.stop()
            self._start()
        process = self._process
        assert process is not None
        try:
            answer = _exchange(process, json.dumps({**request, "host": os.getpid()}).encode(), request["wall_s"] + 30)
        except (OSError, ValueError):
            answer = None
        if answer is None:
            self.stop()
        return answer

    def stop(self) -> None:
        """End the helper and whatever it left behind; idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.returncode:
            _kill_marked(f"{_MARK}={self._mark}".encode())

    def _start(self) -> None:
        self._mark = secrets.token_hex(16)
        environment = {
            "PATH": os.defpath,
            "HOME": str(self._scratch / "run"),
            "TMPDIR": str(self._scratch / "tmp"),
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
            "PYTHONUTF8": "1",
            "PYTHONHASHSEED": "0",
            _MARK: self._mark,
        }
        # Not -I: it would ignore PYTHONHASHSEED. The environment above is all there is, and -P -s -S do the rest.
        argv = [sys.executable, "-P", "-s", "-S", "-B", "-W", "ignore", "-c", _START]
        try:
            self._process = subprocess.Popen(
                [*argv, *(p for p in sys.path if p)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd=self._scratch,
                start_new_session=True,
                bufsize=0,
            )
            assert self._process.stdin is not None
            self._process.stdin.write(base64.b64encode(pickle.dumps(self._sandbox)) + b"\n")
        except (OSError, pickle.PicklingError, TypeError, AttributeError) as error:
            self.stop()
            raise WorkspaceError(f"the test helper process cannot start: {error}") from error


def _exchange(process: subprocess.Popen[bytes], request: bytes, patience_s: float) -> dict[str, Any] | None:
    assert process.stdin is not None and process.stdout is not None
    view = memoryview(request + b"\n")
    while view:
        view = view[process.stdin.write(view) :]
    deadline = time.monotonic() + patience_s
    parts: list[bytes] = []
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    while not (parts and parts[-1].endswith(b"\n")):
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return None
        data = os.read(process.stdout.fileno(), 1 << 20)
        if not data:
            return None
        parts.append(data)
    answer = json.loads(b"".join(parts))
    return answer if isinstance(answer, dict) else None


def _kill_marked(mark: bytes) -> None:
    """Kill processes that were forked from a helper that is gone (Linux): they carry its environment."""
    for _ in range(50):
        found = False
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir("/proc"):
                with contextlib.suppress(OSError):
                    if name.isdigit() and mark in Path(f"/proc/{name}/environ").read_bytes():
                        found = True
                        os.kill(int(name), signal.SIGKILL)
        if not found:
            return
        time.sleep(0.01)
