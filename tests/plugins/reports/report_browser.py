"""A headless Chromium for tests, spoken to through its debugging pipe; no driver and no package is needed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

BECOME = """
import fcntl, os, sys
for fd, wanted in [(fcntl.fcntl(int(fd), fcntl.F_DUPFD, 20), wanted) for fd, wanted in zip(sys.argv[1:3], (3, 4))]:
    os.dup2(fd, wanted)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Turns into the browser, with its two ends of the pipes where it looks for them."""


class Browser:
    """One page. What it logs and asks the network for is kept; a context manager."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._next = 0
        self._session = ""
        self._loaded = False
        self.said: list[str] = []
        """What the console and the browser's log say."""
        self.asked: list[str] = []
        """Addresses that the page asked for."""

    def __enter__(self) -> Browser:
        assert CHROMIUM is not None
        here_read, there_write = os.pipe()
        there_read, here_write = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", BECOME, str(there_read), str(there_write), CHROMIUM),
                *options,
                f"--user-data-dir={self._home / 'profile'}",
            ],
            pass_fds=(there_read, there_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(there_read)
        os.close(there_write)
        self._read, self._write = os.fdopen(here_read, "rb"), os.fdopen(here_write, "wb")
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._read.close()
        with contextlib.suppress(BrokenPipeError):
            self._write.close()

    def open(self, page: Path) -> None:
        """Load a file and wait until all of it is there."""
        self._loaded = False
        self.call("Page.navigate", url=page.as_uri())
        while not self._loaded:
            self._message()

    def value(self, script: str) -> Any:
        """What a piece of JavaScript comes to; the page's own policy does not stand in the way of it."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something and wait for the answer."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while True:
            answer = self._message()
            if answer.get("id") == self._next:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _message(self) -> dict[str, Any]:
        data = bytearray()
        while (char := self._read.read(1)) != b"\0":
            assert char, "the browser went away"
            data += char
        message: dict[str, Any] = json.loads(data)
        told = message.get("params", {})
        if message.get("method") == "Page.loadEventFired":
            self._loaded = True
        elif message.get("method") == "Network.requestWillBeSent":
            self.asked.append(told["request"]["url"])
        elif message.get("method") == "Log.entryAdded":
            self.said.append(told["entry"]["text"])
        elif message.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.said.append(json.dumps(told))
        return message
