"""The fork server: a small process that has imported what tests need and forks one child per run.

Reads one JSON request per line from its standard input and answers with one line on its standard output. It runs
no code of a task itself; its children do, and none of their descendants outlives the answer.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import hashlib
import json
import os
import pickle
import random
import secrets
import select
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

from apex_framework.interfaces.sandbox import Confinement, Sandbox

from . import child, isolation, reaper
from .tracing import compile_traceable
from .watch import Watch, how_it_ended

_REQUESTS, _ANSWERS, _RESULTS = 0, 1, 100
_OUTPUT_CAP = 64 * 1024
_MOST_CODES = 128
"""Files whose code is kept: a few tasks' worth. Every fork copies the page tables of whatever is kept."""
# fmt: off
_PREIMPORTED = (
    "abc", "array", "ast", "asyncio", "base64", "bisect", "calendar", "collections", "collections.abc", "contextlib",
    "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "email", "enum", "fractions", "functools",
    "hashlib", "heapq", "html", "io", "itertools", "json", "linecache", "locale", "math", "operator", "os", "pathlib",
    "pickle", "pprint", "queue", "random", "re", "reprlib", "shlex", "shutil", "statistics", "string", "struct",
    "tempfile", "textwrap", "threading", "time", "tokenize", "traceback", "types", "typing", "unicodedata",
    "unittest", "unittest.mock", "urllib.parse", "warnings", "weakref",
)
# fmt: on


@dataclass(slots=True)
class _Run:
    """What one request has told so far."""

    tests: list[str]
    results: dict[int, dict[str, Any]] = field(default_factory=dict)
    started: list[int] = field(default_factory=list)
    imported: int = 0
    status: str = "finished"
    ended: str = ""
    output: bytes = b""


class Zygote:
    """Serves requests until the descriptor of requests is closed."""

    def __init__(self, sandbox: Sandbox, keep: frozenset[str]) -> None:
        self._sandbox = sandbox
        self._keep = keep
        self._codes: dict[tuple[str, str], CodeType] = {}
        self._hidden: dict[tuple[str, ...], list[str]] = {}
        self._host_gone = False

    def serve(self) -> None:
        """Blocks until the host goes away."""
        with open(_REQUESTS, "rb", closefd=False) as requests:
            for line in requests:
                answer = self._answer(json.loads(line))
                data = json.dumps(answer).encode() + b"\n"
                while data:
                    data = data[os.write(_ANSWERS, data) :]

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        codes = self._compile(request["root"])
        run = _Run(request["tests"])
        deadline = time.monotonic() + request["wall_s"]
        budget = request["step_budget"]
        while todo := [(i, t) for i, t in enumerate(run.tests) if i not in run.results]:
            if time.monotonic() >= deadline:
                for index, _ in todo:
                    run.results[index] = _timeout("the run's time was over", budget)
                run.status = "timeout"
                break
            before = len(run.results)
            self._fork(request, run, todo, codes, deadline)
            if run.ended:
                self._blame(run, budget)
            elif len(run.results) == before:
                run.ended = "ended without a result"
                run.started = [i for i, _ in todo]
                self._blame(run, budget)
        steps = run.imported + sum(r["steps"] for r in run.results.values())
        return {"results": [run.results[i] for i in range(len(run.tests))], "status": run.status, "steps": steps}

    def _blame(self, run: _Run, budget: int) -> None:
        """The tests in hand when the process ended get that as their result."""
        late = run.ended.startswith("stopped")
        if run.status != "timeout":
            run.status = "timeout" if late else "crashed"
        tail = child.clean(run.output[-600:].decode(errors="replace"), "").strip()
        for index in run.started:
            if index not in run.results:
                detail = f"{run.ended}\n{tail}" if tail and not late else run.ended
                run.results[index] = (
                    _timeout(detail, budget) if late else {"status": "error", "detail": detail, "steps": 0, "lines": {}}
                )
        run.ended = ""

    def _compile(self, root: str) -> dict[str, CodeType]:
        """Code of every Python file of the workspace that compiles, made once per content."""
        codes: dict[str, CodeType] = {}
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                if not name.endswith(".py") or os.path.getsize(path) > 1 << 20 or len(codes) > 500:
                    continue
                source = Path(path).read_bytes()
                key = (path, hashlib.sha256(source).hexdigest())
                code = self._codes.pop(key, None)
                if code is None:
                    try:
                        code = compile_traceable(source, path)
                    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
                        continue  # the child compiles it again and reports why not
                self._codes[key] = codes[path] = code
        while len(self._codes) > _MOST_CODES:
            del self._codes[next(iter(self._codes))]
        return codes

    def _fork(
        self,
        request: dict[str, Any],
        run: _Run,
        todo: Sequence[tuple[int, str]],
        codes: dict[str, CodeType],
        deadline: float,
    ) -> None:
        nonce, hidden = secrets.token_hex(16), self._hidden_files(tuple(request["block"]))
        result_in, result_out = os.pipe()
        output_in, output_out = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setsid()
                reaper.die_with_parent()
                self._become_test_process(request, result_out, output_out)
                self._run_tests(request, child.Channel(_RESULTS, nonce), todo, codes, hidden)
                status = 0
            finally:
                os._exit(status)
        os.close(result_out)
        os.close(output_out)
        try:
            run.started, run.ended = [], ""
            self._watch(pid, run, result_in, output_in, nonce, deadline, request)
        finally:
            reaper.end_all(pid)
            os.close(result_in)
            os.close(output_in)
        if self._host_gone:
            os._exit(0)

    def _become_test_process(self, request: dict[str, Any], result_out: int, output_out: int) -> None:
        os.dup2(result_out, _RESULTS, inheritable=False)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(output_out, 1)
        os.dup2(output_out, 2)
        os.closerange(3, _RESULTS)
        os.closerange(_RESULTS + 1, 256)
        os.chdir(request["root"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        limits = request["limits"]
        isolation.drop_foreign_modules(self._keep)
        # They live as long as the process.
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.argv = ["tests"]
        sys.setrecursionlimit(1000)
        random.seed(0)
        self._sandbox.enter(Confinement(Path(request["root"]), **limits, writable=(Path(request["tmp"]),)))

    def _run_tests(
        self,
        request: dict[str, Any],
        channel: child.Channel,
        todo: Sequence[tuple[int, str]],
        codes: dict[str, CodeType],
        hidden: Sequence[str],
    ) -> None:
        root = os.path.join(request["root"], "")
        block = tuple(request["block"])
        child.serve_codes(root, codes)
        if block:
            isolation.ImportBlock(block, root).install()
        runner = child.Runner(
            root, channel, budget=request["step_budget"], coverage=request["coverage"], uncovered=request["uncovered"],
            cpu_s=request["cpu_s"],
        )  # fmt: skip
        isolation.install_audit(
            writable=(request["root"], request["tmp"]),
            unreadable=hidden,
            network=bool(request["limits"]["network"]),
            foreign_pids=(os.getppid(), request["host"], 1, 0, -1),
        )
        runner.run(todo)
        channel.tell(done=True)

    def _hidden_files(self, block: tuple[str, ...]) -> list[str]:
        if block not in self._hidden:
            self._hidden[block] = isolation.sources_of(block)
        return self._hidden[block]

    def _watch(
        self, pid: int, run: _Run, result_in: int, output_in: int, nonce: str, deadline: float, request: dict[str, Any]
    ) -> None:
        poll = select.poll()
        poll.register(result_in, select.POLLIN)
        poll.register(output_in, select.POLLIN)
        poll.register(_REQUESTS, 0)
        mark, partial, output, reason = nonce.encode(), b"", b"", ""
        watch = Watch(request)
        complete, results_open, rounds_after_death = False, True, 0
        while not (complete or reason) and results_open:
            for fd, event in poll.poll(25):
                if fd == _REQUESTS and event & (select.POLLHUP | select.POLLERR):
                    self._host_gone = True
                    return
                if fd == output_in:
                    data = os.read(fd, 65536)
                    output = (output + data)[-_OUTPUT_CAP:]
                    if not data:
                        poll.unregister(fd)
                elif fd == result_in:
                    data = os.read(fd, 1 << 20)
                    results_open = bool(data)
                    *whole, partial = (partial + data).split(b"\n")
                    if len(partial) > 1 << 24:
                        partial = b""
                    for line in whole:
                        if line.startswith(mark):
                            complete |= _take(run, json.loads(line[len(mark) :]))
            now = time.monotonic()
            reason = "stopped: the run's time was over" if now >= deadline else watch.look(now, len(run.results))
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                # Its descendants may hold the pipes open; what it wrote itself is there already.
                rounds_after_death += 1
                if not poll.poll(0) or rounds_after_death > 20:
                    break
        run.output = output
        if not complete:
            run.ended = reason or how_it_ended(pid, request["cpu_s"])


def _take(run: _Run, fact: dict[str, Any]) -> bool:
    if "index" in fact:
        run.results.setdefault(fact.pop("index"), fact)
    elif "start" in fact:
        run.started = fact["start"]
    elif "imported" in fact:
        run.imported += fact["imported"]
    return "done" in fact or "stopped" in fact


def _timeout(detail: str, budget: int) -> dict[str, Any]:
    return {"status": "timeout", "detail": detail, "steps": budget, "lines": {}}


def main() -> None:
    """Start from ``python -c``: standard input opens with one line, the pickled sandbox in base64."""
    header = b""
    while not header.endswith(b"\n"):
        header += os.read(_REQUESTS, 1)
    sandbox: Sandbox = pickle.loads(base64.b64decode(header))  # made by our own host process
    stdlib = os.path.dirname(os.path.realpath(os.__file__))
    foreign = {n for n, m in sys.modules.items() if not _of_stdlib(m, stdlib)}
    for name in _PREIMPORTED:
        with contextlib.suppress(ImportError):
            __import__(name)
    keep = frozenset(set(sys.modules) - foreign)
    sys.path[:] = [p for p in sys.path if p == stdlib or p.endswith(".zip") or p == os.path.join(stdlib, "lib-dynload")]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reaper.become_subreaper()
    gc.collect()
    gc.freeze()
    Zygote(sandbox, keep).serve()


def _of_stdlib(module: Any, stdlib: str) -> bool:
    file = getattr(module, "__file__", None)
    return file is None or (os.path.realpath(file).startswith(stdlib) and "site-packages" not in file)
