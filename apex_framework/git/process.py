"""One child process from start to end: fed, read, limited, and gone afterwards with all that it started."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_PIECE: Final = 1024**2
_COMPLAINT: Final = 4096


@dataclass(frozen=True, slots=True)
class Outcome:
    """``why`` it was ended before its time: ``time``, ``output``, or empty. ``complaint`` is how its errors began."""

    status: int
    output: bytes
    complaint: bytes
    why: str = ""


def converse(
    command: Sequence[str], environment: Mapping[str, str], data: bytes, seconds: float, most: int, memory: int
) -> Outcome:
    """Run a command in a session of its own, give it ``data``, and read what it prints. Blocking."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE if data else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd="/",
        start_new_session=True,
        bufsize=0,
    )
    talk = _Talk(child, data, most)
    try:
        _limit(child.pid, memory)
        deadline = time.monotonic() + seconds
        why = talk.until(deadline)
        if not why and not _ended_by(child, deadline):
            why = "time"
    finally:
        # Whatever it started is ended while the group's number is still its own: the child is not reaped yet.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        talk.close()
    return Outcome(child.returncode, bytes(talk.output), bytes(talk.complaint), why)


class _Talk:
    """The three pipes of a child, served together."""

    def __init__(self, child: subprocess.Popen[bytes], data: bytes, most: int) -> None:
        assert child.stdout is not None and child.stderr is not None
        self._pipes = [pipe for pipe in (child.stdin, child.stdout, child.stderr) if pipe is not None]
        self._in, self._out, self._left, self._most = child.stdin, child.stdout, memoryview(data), most
        self.output, self.complaint = bytearray(), bytearray()
        self._selector = selectors.DefaultSelector()
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_WRITE if pipe is child.stdin else selectors.EVENT_READ)

    def until(self, deadline: float) -> str:
        """Serve until both outputs are closed; why it was broken off, or nothing."""
        while self._selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return "time"
            for key, _ in self._selector.select(left):
                if key.fileobj is self._in:
                    self._feed(key.fd)
                    continue
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    self._selector.unregister(key.fileobj)
                elif key.fileobj is self._out:
                    self.output += piece
                    if len(self.output) > self._most:
                        return "output"
                elif len(self.complaint) < _COMPLAINT:
                    self.complaint += piece[:_COMPLAINT]
        return ""

    def _feed(self, fd: int) -> None:
        assert self._in is not None
        try:
            self._left = self._left[os.write(fd, self._left[:_PIECE]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._left = memoryview(b"")
        if not self._left:
            self._selector.unregister(self._in)
            self._in.close()

    def close(self) -> None:
        self._selector.close()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()


def _ended_by(child: subprocess.Popen[bytes], deadline: float) -> bool:
    """Whether it ends in time, having closed its outputs; it is not reaped."""
    pause = 0.0005
    while not _is_over(child):
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return True


def _is_over(child: subprocess.Popen[bytes]) -> bool:
    if not hasattr(os, "waitid"):
        return child.poll() is not None
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _limit(pid: int, memory: int) -> None:
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        resource.prlimit(pid, resource.RLIMIT_AS, (memory, memory))
