"""A worker process, seen from outside."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from multiprocessing.connection import Connection

from apex_framework.interfaces import EpisodeJob, EpisodeResult

_BOOT = (
    "import json,sys; sys.path[:]=json.loads(sys.argv[1]); "
    "from apex_framework.episode.worker import main; main(int(sys.argv[2]), sys.argv[3])"
)


class WorkerProcess:
    """One child interpreter that does jobs one after the other.

    It is started by name, not forked and not by importing the caller's main module again, so that any program can
    use it. Its hash seed is fixed: an order of sets must not make an episode differ.
    """

    def __init__(self, work: str) -> None:
        """``work`` is ``module:function``."""
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, json.dumps(sys.path), str(theirs.fileno()), work],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
                env={**os.environ, "PYTHONHASHSEED": "0"},
            )
        finally:
            theirs.close()
        self.connection: Connection = Connection(ours.detach())

    def send(self, job: EpisodeJob) -> None:
        """Hand over a job; a dead worker is noticed when its result is asked for."""
        with contextlib.suppress(OSError):
            self.connection.send(job)

    def receive(self) -> EpisodeResult | None:
        """The finished job's result, or None when the worker died."""
        try:
            result = self.connection.recv()
        except (EOFError, OSError):
            return None
        return result if isinstance(result, EpisodeResult) else None

    def ask_to_stop(self, *, busy: bool) -> None:
        """Close the line, on which an idle worker ends by itself; a busy one is told to. Does not wait."""
        self.connection.close()
        if busy:
            self._process.terminate()

    def stop(self, *, busy: bool = True) -> int:
        """End it, by force after three seconds; returns its exit status. Idempotent."""
        self.ask_to_stop(busy=busy)
        try:
            return self._process.wait(3.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _has_descriptor(stream: object) -> bool:
    try:
        stream.fileno()  # type: ignore[attr-defined]  # a replaced stderr may be any object
    except (AttributeError, OSError, ValueError):
        return False
    return True
