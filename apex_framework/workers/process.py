"""A worker, seen from outside: one process from its start to its end. Everything here happens on the fleet's loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..errors import BackendError, Failure
from . import frames

_log = logging.getLogger(__name__)

_BOOT: Final = (
    "import json,sys; sys.path[:]=json.loads(sys.argv[1]); n=int(sys.argv[2]); sys.argv[1:]=[]; "
    "from apex_framework.workers.child import main; main(n)"
)
_SECRET: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
LAST_WORDS: Final = 4096
"""Bytes kept of what a worker said last."""

Event = Mapping[str, Any]
Hear = Callable[[Event], None]


class WorkerGone(Exception):
    """The process ended; ``begun`` tells whether it had begun the call."""

    def __init__(self, cause: str, begun: bool) -> None:
        super().__init__(cause)
        self.begun = begun


class Call:
    """One call in a worker's hands: ``hear`` gets its events, ``over`` is set by the last one."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self.begun = False
        self.over: asyncio.Future[Event] = asyncio.get_running_loop().create_future()

    def take(self, event: Event) -> None:
        """An event from the worker."""
        if self.over.done():
            return
        name = event.get("event")
        self.begun = self.begun or name == "begun"
        if name in ("done", "counts", "error"):
            self.over.set_result(event)
        elif name == "text":
            self._hear(event)


class Worker:
    """A fresh interpreter, started by name, never forked: this process may have threads and models of its own."""

    def __init__(self, load: Mapping[str, Any], environ: Mapping[str, str], keep: frozenset[str]) -> None:
        """``load`` is the first frame; of ``environ`` what is named like a secret is left out, but for ``keep``.

        Raises BackendError when no process can be started.
        """
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _BOOT, json.dumps([p for p in sys.path if p]), str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={k: v for k, v in environ.items() if k in keep or not _SECRET.search(k)},
            )
        except OSError as error:
            ours.close()
            raise BackendError(
                f"a model process cannot be started: {error.strerror}", kind=Failure.WORKER_DIED
            ) from error
        finally:
            theirs.close()
        self._socket = ours
        self._load = load
        self._calls: dict[str, Call] = {}
        self._words = bytearray()
        self._tasks: list[asyncio.Task[None]] = []
        self._writer: asyncio.StreamWriter | None = None
        self._pipe: asyncio.ReadTransport | None = None
        self.gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Set when the process has ended, to its cause of death."""
        self.meant = False
        """It was ended on purpose: no crash."""
        self.silent = False

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    async def start(self) -> Mapping[str, Any]:
        """Load; what the engine says about it. Raises BackendError when loading fails, WorkerGone when it ends."""
        words, self._process.stderr = self._process.stderr, None
        assert words is not None
        os.set_blocking(words.fileno(), False)
        loop = asyncio.get_running_loop()
        errors = asyncio.StreamReader()
        self._pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(errors), words)
        reader, self._writer = await asyncio.open_connection(sock=self._socket)
        self._ready: asyncio.Future[Event] = loop.create_future()
        self._tasks = [loop.create_task(self._listen(reader)), loop.create_task(self._overhear(errors))]
        self._send(self._load)
        await _first(self._ready, self.gone)
        if not self._ready.done():
            raise WorkerGone(self.gone.result(), begun=False)
        event = self._ready.result()
        if event.get("event") != "ready":
            await self.end(0.5)
            raise _error(event, self.last_words)
        info: Mapping[str, Any] = event.get("info", {})
        return info

    async def ask(self, call_id: str, frame: Mapping[str, Any], hear: Hear, grace_s: float) -> Event:
        """The last event of a call. Raises WorkerGone.

        Cancelled, it tells the worker and does not wait; a worker that goes on for ``grace_s`` is killed.
        """
        if self.gone.done():
            raise WorkerGone(self.gone.result(), begun=False)
        call = self._calls[call_id] = Call(hear)
        try:
            self._send({**frame, "call": call_id})
            await _first(call.over, self.gone)
        except asyncio.CancelledError:
            if not self.gone.done():
                self._send({"do": "cancel", "call": call_id})
                asyncio.get_running_loop().call_later(grace_s, self._force, call)
            raise
        finally:
            if call.over.done() or self.gone.done():
                self._calls.pop(call_id, None)
        if not call.over.done():
            raise WorkerGone(self.gone.result(), call.begun)
        return call.over.result()

    @property
    def last_words(self) -> str:
        """What the process said last that sounds like a reason; empty for none."""
        lines = [line.strip() for line in self._words.decode(errors="replace").splitlines() if line.strip()]
        reasons = [line for line in lines if re.search(r"error|fail|unable|unknown|assert|abort|invalid", line, re.I)]
        return (reasons or lines or [""])[0 if reasons else -1][:300]

    def kill(self, *, meant: bool = True) -> None:
        """End it now."""
        self.meant = self.meant or meant
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def end(self, grace_s: float) -> None:
        """Hang up, which ends it; by force after ``grace_s``. Idempotent; afterwards no process and no descriptor is left."""
        self.meant = True
        if self._writer is not None:
            self._writer.close()
        else:
            self._socket.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        while self._process.poll() is None:  # no thread to wait in: none can be had while the interpreter ends
            if loop.time() >= deadline:
                self.kill()
            await asyncio.sleep(0.005)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._pipe is not None:
            self._pipe.close()
        elif self._process.stderr is not None:
            self._process.stderr.close()
        if self._writer is not None:
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
        self._set_gone("ended")

    def _force(self, call: Call) -> None:
        if not call.over.done() and not self.gone.done():
            _log.warning("model process %d does not heed a cancellation: killed", self.pid)
            self.kill()

    def _send(self, frame: Mapping[str, Any]) -> None:
        assert self._writer is not None
        try:
            self._writer.write(frames.encode(dict(frame)))
        except frames.FrameError as error:
            raise BackendError(f"a request is too large: {error}", kind=Failure.CONTEXT_EXCEEDED) from error

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while (frame := await frames.read(reader)) is not None:
                if frame.get("event") in ("ready", "failed") and not self._ready.done():
                    self._ready.set_result(frame)
                elif call := self._calls.get(str(frame.get("call"))):
                    call.take(frame)
                    if call.over.done():
                        self._calls.pop(str(frame.get("call")), None)
        except (frames.FrameError, OSError) as error:
            _log.warning("model process %d: %s: killed", self.pid, error)
        self.kill(meant=self.meant)
        while self._process.poll() is None:  # noqa: ASYNC110 - no event tells it without a thread
            await asyncio.sleep(0.005)
        await asyncio.wait(self._tasks[1:], timeout=0.2)  # its last words are still on their way
        self._set_gone(self._cause())

    async def _overhear(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(LAST_WORDS):
            if not self.silent:
                self._words += data
                del self._words[: max(0, len(self._words) - 4 * LAST_WORDS)]

    def _set_gone(self, cause: str) -> None:
        if not self.gone.done():
            self.gone.set_result(cause)

    def _cause(self) -> str:
        status = self._process.returncode
        if status is not None and status < 0:
            try:
                name = signal.Signals(-status).name
            except ValueError:
                name = f"signal {-status}"
            hint = "; perhaps no memory was left" if -status == signal.SIGKILL and not self.meant else ""
            how = f"was ended by {name}{hint}"
        else:
            how = f"ended with status {status}"
        words = self.last_words
        return f"the model process {how}" + (f": {words}" if words else "")


async def _first(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


def _error(event: Event, words: str) -> BackendError:
    """A failed load or call as an error."""
    try:
        kind = Failure(str(event.get("kind", "")))
    except ValueError:
        kind = Failure.UNKNOWN
    cause = str(event.get("cause", "")) or "no reason given"
    if event.get("event") == "failed" and words and words not in cause:
        cause = f"{cause} ({words})"
    return BackendError(cause, str(event.get("remedy", "")), kind=kind)


def error_of(event: Event) -> BackendError:
    """The error that an ``error`` event tells."""
    return _error(event, "")
