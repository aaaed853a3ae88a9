"""What runs on the nodes: an actor with one warm worker process, which does one episode at a time.

The episode is not run in the actor itself. Ray ends an actor without a warning; a process of our own can be told to
leave and cleans up, has its main thread and a fixed hash seed, and its death is not the actor's.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from apex_framework import EpisodeJob, EpisodeResult

from .facts import Seen, seen, versions

_BOOT = (
    "import json,sys; sys.path += [p for p in json.loads(sys.argv[1]) if p not in sys.path]; "
    "from apex_framework.episode.worker import main; main(int(sys.argv[2]), sys.argv[3])"
)
_RAYS_OWN = ("RAY_", "PYTHONBREAKPOINT")
"""Variables that Ray sets for its own processes: an episode has nothing to do with the cluster."""
GRACE_S = 3.0
"""Seconds that a worker has to clean up."""


@dataclass(frozen=True, slots=True)
class Died:
    """The worker ended in the middle of a job."""

    status: int


@dataclass(frozen=True, slots=True)
class Unseen:
    """A file that processes must share is not the same one here."""

    path: str
    node: str


class Node:
    """The actor. ``leave`` is called while ``do`` waits: Ray gives it two threads."""

    def __init__(self) -> None:
        self._setup: Mapping[str, Any] = {}
        self._worker: Worker | None = None
        self._leaving = False

    def hello(self, setup: Mapping[str, Any]) -> dict[str, Any]:
        """Take what all jobs need; say what this node is. Plain values only: the other side may be of another version."""
        self._setup = setup
        return {"node": platform.node(), "pid": os.getpid(), "versions": versions()}

    def do(self, job: EpisodeJob, shared: Mapping[str, Seen | None]) -> EpisodeResult | Died | Unseen:
        """One episode. ``shared`` are files as the driver sees them: they must be the same here."""
        for path, theirs in shared.items():
            if theirs is None or seen(path) != theirs:
                return Unseen(path, platform.node())
        if self._leaving:
            return Died(0)
        worker = self._worker = self._worker or Worker(self._setup)
        result = worker.do(job)
        if result is None:
            self._worker = None
            return Died(worker.ended())
        return result

    def leave(self) -> None:
        """End the worker, which cleans up; the actor is good for nothing any more."""
        self._leaving = True
        worker = self._worker
        if worker is not None:
            worker.end()


class Worker:
    """One child interpreter that does jobs one after the other, as those of executor ``local`` do."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        own = {name: value for name, value in os.environ.items() if not name.startswith(_RAYS_OWN)}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, json.dumps(setup["path"]), str(theirs.fileno()), setup["work"]],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=2,  # into Ray's log of the actor
                cwd=setup["folder"] if os.path.isdir(setup["folder"]) else os.sep,
                env={**own, **setup["variables"], "PYTHONHASHSEED": "0"},
            )
        finally:
            theirs.close()
        self._connection: Connection = Connection(ours.detach())

    def do(self, job: EpisodeJob) -> EpisodeResult | None:
        """The job's result, or None when the process died."""
        try:
            self._connection.send(job)
            result = self._connection.recv()
        except (EOFError, OSError):
            return None
        return result if isinstance(result, EpisodeResult) else None

    def ended(self) -> int:
        """Exit status of one that is ending by itself: a signal now would be taken for what ended it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(GRACE_S)
        return self.end()

    def end(self) -> int:
        """Tell it to leave, make it after ``GRACE_S``; its exit status. Idempotent, from any thread.

        The connection stays open: another thread may be waiting at it, and is woken by the process's end.
        """
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            return self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
