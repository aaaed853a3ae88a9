"""The laboratory: a process of its own in which originals are asked and copies, whole or faulty, are run.

Standard library only; started as a script with ``-P -s -S``. One JSON request per line on stdin, one reply per line
on stdout. Every run of a copy happens in a forked child, so nothing that a faulty copy does reaches the next one.
"""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.util
import io
import json
import os
import signal
import sys
import time
import types
import unittest
from collections.abc import Callable, Iterator
from typing import Any

REPR_LIMIT = 400
CPU_SECONDS = 6
MEMORY = 2 * 1024**3
DAYS_APART = 400 * 86400.0


class Endless(BaseException):
    """A case used up its steps."""


class Copies(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the repository's package from memory."""

    def __init__(self, package: str, files: dict[str, str], compiled: dict[str, types.CodeType]) -> None:
        self.package = package
        self.files = files
        self.compiled = compiled

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != self.package:
            return None
        base = name.replace(".", "/")
        for file, is_package in ((f"{base}/__init__.py", True), (f"{base}.py", False)):
            if file in self.files:
                spec = importlib.util.spec_from_loader(name, self, origin=file, is_package=is_package)
                if spec:
                    spec.has_location = True
                return spec
        return None

    def code(self, file: str) -> types.CodeType:
        source = self.files[file]
        if source not in self.compiled:
            self.compiled[source] = compile(source, file, "exec", dont_inherit=True)
        return self.compiled[source]

    def exec_module(self, module: types.ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None and spec.origin is not None
        exec(self.code(spec.origin), module.__dict__)


def deny(package: str, blocked: list[str]) -> None:
    """Refuse imports of ``blocked`` modules by code of the package and by its tests."""
    real, names = builtins.__import__, set(blocked)

    def guarded(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        who = str((globals or {}).get("__name__", ""))
        if level == 0 and who.partition(".")[0] in (package, "tests"):
            wanted = {name, *(f"{name}.{item}" for item in fromlist or ())}
            if any(w in names or any(w.startswith(f"{n}.") for n in names) for w in wanted):
                raise ImportError(f"{name} is not available here")
        return real(name, globals, locals, fromlist, level)

    builtins.__import__ = guarded


def outcome(code: types.CodeType, space: dict[str, Any]) -> dict[str, str] | None:
    """What an expression gives: a literal value, a text form or an exception; None when it cannot be compared."""
    try:
        got = eval(code, space)
        text = repr(got)
    except Exception as error:  # noqa: BLE001 - whatever an original raises is its result
        kind = type(error)
        known = getattr(builtins, kind.__name__, None) is kind
        return {"mode": "raises" if known else "named", "expected": kind.__name__}
    except SystemExit:
        return {"mode": "raises", "expected": "SystemExit"}
    if len(text) > REPR_LIMIT or " at 0x" in text or "nan" in text:
        return None
    try:
        same = ast.literal_eval(text) == got
    except (ValueError, SyntaxError, TypeError, RecursionError):
        same = False
    return {"mode": "value" if same else "repr", "expected": text}


def fresh_space() -> dict[str, Any]:
    """Names of a new module ``tests``; classes made there find it, as they would in a test file."""
    module = sys.modules["tests"] = types.ModuleType("tests")
    return module.__dict__


def shift_clock() -> None:
    """Originals live on another day than their copies, so whatever tells the time is not repeatable."""
    now, gmtime, localtime = time.time, time.gmtime, time.localtime
    if now.__name__ == "time":
        time.time = lambda: now() + DAYS_APART
        time.gmtime = lambda seconds=None: gmtime(time.time() if seconds is None else seconds)
        time.localtime = lambda seconds=None: localtime(time.time() if seconds is None else seconds)


def record(request: dict[str, Any]) -> dict[str, Any]:
    """Expectations from the original."""
    sys.stdout = sys.stderr = io.StringIO()
    shift_clock()
    space = fresh_space()
    try:
        exec(compile(request["prelude"], "prelude", "exec", dont_inherit=True), space)
    except ImportError:
        return {"answers": [None] * len(request["cases"])}
    answers: list[dict[str, str] | None] = []
    for case in request["cases"]:
        try:
            answers.append(outcome(compile(case, "case", "eval", dont_inherit=True), space))
        except SyntaxError:
            answers.append(None)
    return {"answers": answers}


class Bench:
    """A loaded copy: its files, prelude and cases."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.package = str(request["package"])
        self.files: dict[str, str] = request["files"]
        self.block: list[str] = request["block"]
        self.prelude: str = request["prelude"]
        self.cases = [
            (compile(c["expression"], "case", "eval", dont_inherit=True), c["mode"], self.expected(c))
            for c in request["cases"]
        ]
        self.compiled: dict[str, types.CodeType] = {}
        for file in self.files:
            Copies(self.package, self.files, self.compiled).code(file)

    @staticmethod
    def expected(case: dict[str, str]) -> Any:
        return ast.literal_eval(case["expected"]) if case["mode"] == "value" else case["expected"]

    def install(self, changed: dict[str, str]) -> Copies:
        """In a child: make the copy importable and the originals not."""
        copies = Copies(self.package, {**self.files, **changed}, self.compiled)
        sys.meta_path.insert(0, copies)
        deny(self.package, self.block)
        return copies

    def child(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of ``work`` done in a forked child; ``status`` is ``crash`` when it did not live to answer."""
        readable, writable = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(readable)
                confine()
                answer = json.dumps(work()).encode()
                with os.fdopen(writable, "wb") as pipe:
                    pipe.write(answer)
            except BaseException:  # noqa: BLE001 - the child's edge: its silence is the answer
                os._exit(1)
            os._exit(0)
        os.close(writable)
        with os.fdopen(readable, "rb") as pipe:
            data = pipe.read()
        os.waitpid(pid, 0)
        return json.loads(data) if data else {"status": "crash"}

    def run(self, changed: dict[str, str], steps: int, coverage: bool, elsewhere: bool) -> dict[str, Any]:
        """Every case on the copy, traced. ``steps`` is the most traced lines that one case may use."""
        os.chdir(os.path.dirname(os.path.abspath(__file__)) if elsewhere else "/")
        self.install(changed)
        space = fresh_space()
        try:
            exec(compile(self.prelude, "prelude", "exec", dont_inherit=True), space)
        except Exception:  # noqa: BLE001 - a faulty copy may raise anything at import
            return {"status": "import"}
        tracer = Tracer(self.package + "/", steps, coverage)
        failures: list[dict[str, Any]] = []
        covered: list[dict[str, Any]] = []
        most = 0
        for number, (code, mode, expected) in enumerate(self.cases):
            tracer.begin()
            try:
                failure = self.judge(code, mode, expected, space, tracer)
            except Endless:
                return {"status": "endless"}
            finally:
                sys.settrace(None)
            if failure:
                failures.append({"case": number, **failure})
            most = max(most, tracer.count)
            if coverage:
                lines = {f: sorted(n) for f, n in tracer.lines.items()}
                covered.append({"entry": tracer.entry, "steps": tracer.count, "lines": lines})
        return {"status": "ok", "failures": failures, "steps": most, "covered": covered}

    def judge(
        self, code: types.CodeType, mode: str, expected: Any, space: dict[str, Any], tracer: Tracer
    ) -> dict[str, Any] | None:
        """None when a case passes, else how it fails."""
        try:
            sys.settrace(tracer.call)
            got = eval(code, space)
            if mode == "value" and got == expected:
                return None
            text = repr(got)
            sys.settrace(None)
        except (KeyboardInterrupt, Endless):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever faulty code raises is its result
            sys.settrace(None)
            if mode == "raises" and isinstance(error, getattr(builtins, expected)):
                return None
            if mode == "named" and isinstance(error, Exception) and type(error).__name__ == expected:
                return None
            return {"kind": "raise", "got": describe(error), "at": place(error, self.package + "/")}
        if mode in ("raises", "named"):
            return {"kind": "no raise", "got": text[:REPR_LIMIT]}
        return {"kind": "value", "got": text[:REPR_LIMIT]} if mode == "value" or text != expected else None

    def tests(self, changed: dict[str, str], tests: dict[str, str]) -> dict[str, Any]:
        """Test files run by unittest as they will be later; outcome by ``path::Class.test``."""
        os.chdir("/")
        self.install(changed)
        found: dict[str, str] = {}
        for path, source in tests.items():
            name = "tests." + path.rpartition("/")[2].removesuffix(".py")
            module = sys.modules[name] = types.ModuleType(name)
            exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
            suite = unittest.defaultTestLoader.loadTestsFromModule(module)
            for test in flatten(suite):
                result = unittest.TestResult()
                test.run(result)
                test_id = f"{path}::{type(test).__qualname__}.{test._testMethodName}"
                found[test_id] = "failed" if result.failures else "error" if result.errors else "passed"
        return {"status": "ok", "outcomes": found}


class Tracer:
    """Counts lines of the package; remembers which, when asked."""

    def __init__(self, prefix: str, limit: int, coverage: bool) -> None:
        self.prefix = prefix
        self.limit = limit
        self.coverage = coverage
        self.begin()

    def begin(self) -> None:
        self.count = 0
        self.entry = ""
        self.lines: dict[str, set[int]] = {}

    def call(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(self.prefix):
            return None
        if not self.entry:
            self.entry = file
        return self.cover if self.coverage else self.line

    def line(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count > self.limit:
                raise Endless
        return self.line

    def cover(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.line(frame, event, arg)
            self.lines.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return self.cover


def flatten(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


def describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:REPR_LIMIT]
    except Exception:  # noqa: BLE001 - so may a faulty __str__
        return type(error).__name__


def place(error: BaseException, prefix: str) -> list[Any]:
    """File and line of the innermost frame of the package; empty when it never got there."""
    found: list[Any] = []
    step = error.__traceback__
    while step:
        file = step.tb_frame.f_code.co_filename
        if file.startswith(prefix):
            found = [file, step.tb_lineno]
        step = step.tb_next
    return found


def confine() -> None:
    """In a child: silence, little processor time, little memory."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), io.StringIO(), io.StringIO()
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError, OSError):
        pass  # no such limit on this system; the timer remains


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    bench: Bench | None = None
    for line in requests:
        request = json.loads(line)
        what = request["do"]
        if what == "record":
            reply = record(request)
        elif what == "load":
            bench, reply = Bench(request), {"status": "ok"}
        elif bench is None:
            reply = {"status": "nothing loaded"}
        elif what == "run":
            asked = [request[k] for k in ("files", "steps", "coverage", "elsewhere")]
            reply = bench.child(lambda b=bench, a=asked: b.run(*a))  # type: ignore[misc]  # defaults bind the loop variables
        else:
            changed, tests = request["files"], request["tests"]
            reply = bench.child(lambda b=bench, c=changed, t=tests: b.tests(c, t))  # type: ignore[misc]  # defaults bind the loop variables
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
