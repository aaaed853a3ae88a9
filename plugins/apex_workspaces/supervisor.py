"""Between the host and the tests: starts test processes, hears them out, stops them, and ends all that they started.

A small process of its own, because it takes over every orphan below it. Reads one request from its standard input, answers
with one line, and runs no code of a repository. When its standard input closes, the host is gone: everything ends at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from . import reaper
from .watch import Watch, how_it_ended

_TAIL = 600
_LONGEST_LINE = 16 * 1024**2


@dataclass(slots=True)
class _Run:
    """What the test processes of one request have told so far."""

    results: dict[int, dict[str, Any]] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    status: str = "finished"
    ended: str = ""
    """Why the last process ended before its time."""
    exit: str = ""
    output: bytes = b""
    log: bytearray = field(default_factory=bytearray)


class _Process:
    """One test process: what it told, what it printed, and why it was stopped."""

    def __init__(self, request: dict[str, Any], config: dict[str, Any]) -> None:
        self.nonce, self.started, self.done = secrets.token_hex(16), [], None  # type: ignore[var-annotated]  # filled below
        self.printed, self.tail, self.results = 0, b"", 0
        self.log, self._keep = bytearray(), int(request.get("keep_output", 0))
        inlet, outlet = os.pipe()
        whole = {**config, "fd": outlet, "nonce": self.nonce}
        self.child = subprocess.Popen(
            request["argv"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=request["env"],
            cwd=request["cwd"],
            pass_fds=(outlet,),
            start_new_session=True,
            bufsize=0,
        )
        os.close(outlet)
        assert self.child.stdin is not None and self.child.stdout is not None
        self.told, self.out = inlet, self.child.stdout.fileno()
        os.set_blocking(self.out, False)
        self._pending = b""
        with contextlib.suppress(BrokenPipeError), self.child.stdin as wire:
            view = memoryview(json.dumps(whole).encode() + b"\n" if config else b"")
            while view:
                view = view[wire.write(view) :]

    def hear(self, run: _Run) -> bool:
        """Take in what was told; false at its end."""
        data = os.read(self.told, 1 << 16)
        *lines, self._pending = (self._pending + data).split(b"\n")
        if len(self._pending) > _LONGEST_LINE:
            self._pending = b""
        for line in lines:
            opening, _, rest = line.partition(b" ")
            if opening == self.nonce.encode():
                self._take(json.loads(rest.partition(b" ")[2]), run)
        return bool(data)

    def _take(self, fact: dict[str, Any], run: _Run) -> None:
        if "start" in fact:
            self.started = fact["start"]
        elif "found" in fact:
            run.found += fact["found"]
        elif "broken" in fact:
            run.broken[fact["broken"]] = fact["detail"]
        elif "done" in fact:
            self.done = fact["done"]
        elif "stopped" in fact:
            run.ended = "stopped: too many lines"
        elif fact["index"] not in run.results:
            self.results += 1
            run.results[fact["index"]] = {k: fact[k] for k in ("status", "detail", "steps", "lines")}

    def drain(self) -> bool:
        """Read what was printed and keep its end; false at its end."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.out, 1 << 20)
            self.printed += len(data)
            self.tail = (self.tail + data)[-_TAIL:]
            self.log += data[: max(0, self._keep - len(self.log))]
            return bool(data)
        return True

    def close(self) -> None:
        os.close(self.told)
        assert self.child.stdout is not None
        self.child.stdout.close()


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """Run until every test has a result."""
    run, tests = _Run(), request["tests"]
    deadline = time.monotonic() + request["wall_s"]
    first = True
    while first or (todo := [i for i in range(len(tests)) if i not in run.results]):
        indices = list(range(len(tests))) if first else todo
        if time.monotonic() >= deadline and not first:
            _give(run, indices, "timeout", "the run's time was over")
            run.status = "timeout"
            break
        first, before = False, len(run.results)
        chosen = indices[:1] if request["singly"] else indices
        config = {**request["config"], "todo": [(i, tests[i]) for i in chosen]} if request["config"] else {}
        process = _run_one(request, config, tests[chosen[0]] if request["singly"] else "", run, deadline)
        if request["collect"]:
            break
        if request["singly"]:
            _judge_by_status(run, chosen[0])
        else:
            _judge(run, chosen, tests, process, progressed=len(run.results) > before)
    tail = run.output.decode("utf-8", "replace")
    results = [run.results.get(i) for i in range(len(tests))]
    return {"results": results, "found": run.found, "broken": run.broken, "status": run.status, "why": run.ended,
            "exit": run.exit, "output": tail, "log": run.log.decode("utf-8", "replace")}  # fmt: skip


def _run_one(request: dict[str, Any], config: dict[str, Any], test: str, run: _Run, deadline: float) -> _Process:
    run.ended = run.exit = ""
    if request["singly"]:
        request = {**request, "argv": [part.replace("{test}", test) for part in request["argv"]]}
    process = _Process(request, config)
    try:
        run.ended = _attend(request, process, run, deadline) or run.ended
    finally:
        run.exit = how_it_ended(process.child.pid, request["cpu_s"]) if not run.ended else run.ended
        reaper.end_all(process.child.pid)
        with contextlib.suppress(OSError):
            while process.hear(run):
                pass
        process.child.returncode = 0  # reaped above: nobody is to wait for its number again
        process.drain()
        process.close()
        run.output = process.tail
        run.log += process.log[: max(0, request.get("keep_output", 0) - len(run.log))]
    return process


def _attend(request: dict[str, Any], process: _Process, run: _Run, deadline: float) -> str:
    """Hear a test process until it ends; why it is to be stopped, or nothing."""
    watch, grown = Watch(request), Growth(request["writable"], request["disk"])
    poll = select.poll()
    for fd in (0, process.told, process.out):
        poll.register(fd, select.POLLIN | select.POLLHUP)
    open_ends = 2
    while open_ends:
        now = time.monotonic()
        if now >= deadline:
            run.status = "timeout"
            return "stopped: the run's time was over"
        for fd, _ in poll.poll(min(50.0, max(0.0, deadline - now) * 1000)):
            if fd == 0:
                _host_is_gone(process)
            elif not (process.hear(run) if fd == process.told else process.drain()):
                poll.unregister(fd)
                open_ends -= 1
        if process.printed > request["most_output"]:
            return f"stopped: printed more than {request['most_output']:,} bytes"
        if why := watch.look(time.monotonic(), process.results) or grown.look():
            return why
        if process.done is not None and _ended(process.child.pid):
            return ""
        if open_ends and _ended(process.child.pid):
            # It ended; what holds its ends open is what it left behind.
            process.hear(run) if select.select([process.told], [], [], 0)[0] else None
            return ""
    return ""


class Growth:
    """How much was written below a few folders: looked at rarely where that takes long."""

    def __init__(self, folders: list[str], most: int) -> None:
        self._folders, self._most, self._next = folders, most, time.monotonic() + 0.1
        self._base = _size(folders)

    def look(self) -> str:
        now = time.monotonic()
        if now < self._next:
            return ""
        grown = _size(self._folders) - self._base
        self._next = time.monotonic() + max(0.1, 20 * (time.monotonic() - now))
        return f"stopped: wrote more than {self._most:,} bytes" if grown > self._most else ""


def _size(folders: list[str]) -> int:
    total, waiting = 0, list(folders)
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def _judge(run: _Run, indices: list[int], tests: list[str], process: _Process, *, progressed: bool) -> None:
    """Tests in hand when a process ended get that as their result; a status that contradicts results takes passes away."""
    left = [i for i in indices if i not in run.results]
    exited = run.exit.startswith("the test process exited with status ")
    if process.done is not None and exited and not run.ended:
        real = int(run.exit.rpartition(" ")[2])
        fine = all(run.results.get(i, {}).get("status") in ("passed", "skipped") for i in indices) and not run.broken
        if real != process.done or (real == 0) != fine or (real == 0 and left):
            _contradict(run, indices, f"the tests passed, but their process ended with status {real}")
        for i in left:
            detail = run.broken.get(tests[i].partition("::")[0], "no such test, or it did not run")
            _give(run, [i], "error", detail)
        return
    why = run.ended or run.exit
    late = why.startswith("stopped")
    run.status = "timeout" if late and run.status != "crashed" else "timeout" if run.status == "timeout" else "crashed"
    hand = [i for i in process.started if i in left] or ([] if progressed else left)
    tail = "" if late else run.output.decode("utf-8", "replace").strip()
    _give(run, hand, "timeout" if late else "error", f"{why}\n{tail}".strip())


def _contradict(run: _Run, indices: list[int], detail: str) -> None:
    for i in indices:
        if run.results.get(i, {}).get("status") == "passed":
            run.results[i] = {**run.results[i], "status": "error", "detail": detail}
    run.status = "crashed"


def _judge_by_status(run: _Run, index: int) -> None:
    """A command of the operator's: it passes when it ends with status 0."""
    tail = run.output.decode("utf-8", "replace").strip()
    if run.ended:
        run.status = "timeout"
        _give(run, [index], "timeout", run.ended)
    elif run.exit == "the test process exited with status 0":
        _give(run, [index], "passed", "")
    else:
        _give(run, [index], "failed" if "exited with" in run.exit else "error", f"{run.exit}\n{tail}".strip())


def _give(run: _Run, indices: list[int], status: str, detail: str) -> None:
    for index in indices:
        run.results[index] = {"status": status, "detail": detail, "steps": 0, "lines": {}}


def _ended(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return True


def _host_is_gone(process: _Process) -> None:
    reaper.end_all(process.child.pid)
    os._exit(1)


def main() -> None:
    """One request, one answer."""
    reaper.become_subreaper()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: None)  # what is ignored would stay so in the tests, and in what they terminate
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(0, 1 << 20)
        if not data:
            return
        line += data
    try:
        answer = serve(json.loads(line))
    except OSError as error:
        answer = {"failed": f"{error.strerror}: {error.filename}"}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.flush()
