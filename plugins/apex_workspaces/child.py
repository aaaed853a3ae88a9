"""Inside the test process: import test files, run unittest tests one by one, tell each result at once."""

from __future__ import annotations

import json
import os
import random
import re
import sys
import unittest
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from .tracing import make_tracer

MOST_DETAIL = 1500
# As it is printed, and as ``id`` gives it on a 64-bit Linux.
_ADDRESS = re.compile(r"(?<=0x)[0-9a-fA-F]{4,}|(?<![\w.])(?:9[3-5][0-9]{12}|13[89][0-9]{12}|140[0-7][0-9]{11})(?!\w)")
_CONTROL = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def serve_codes(root: str, codes: Mapping[str, CodeType]) -> None:
    """Imports below ``root`` use code that was compiled before the fork; what is not there is compiled as usual."""

    class Loader(SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType | None:
            return codes.get(self.path) or super().get_code(fullname)

    make_finder = FileFinder.path_hook((Loader, [".py"]))

    def hook(path: str) -> Any:
        if not os.path.join(path, "").startswith(root):
            raise ImportError(path)
        return make_finder(path)

    sys.path_hooks.insert(0, hook)
    sys.path.insert(0, root.rstrip(os.sep))


class Channel:
    """The way of results to the supervisor: one line each, opened by a word that task code does not know."""

    def __init__(self, fd: int, nonce: str) -> None:
        self._fd, self._nonce = fd, nonce
        # Bound now: a test may replace attributes of these modules.
        self._write, self._dumps = os.write, json.dumps

    def tell(self, **fact: Any) -> None:
        """Send one fact, whole."""
        data = f"{self._nonce}{self._dumps(fact)}\n".encode()
        while data:
            data = data[self._write(self._fd, data) :]


class Runner:
    """Runs ``todo``, pairs of index and id, of one request; ends the process itself when a test is endless."""

    def __init__(
        self, root: str, channel: Channel, *, budget: int, coverage: bool, uncovered: Sequence[str], cpu_s: int
    ) -> None:
        self._root, self._channel, self._coverage, self._cpu_s = root, channel, coverage, cpu_s
        self._uncovered = frozenset(uncovered)
        self._budget = budget
        self._tracer = make_tracer(root, budget, self._exceeded, coverage=coverage)
        self._current: list[int] = []
        self._exit = os._exit

    def run(self, todo: Sequence[tuple[int, str]]) -> None:
        """Every test, file by file in the order given."""
        files: dict[str, list[tuple[int, str]]] = {}
        for index, test in todo:
            path, _, name = test.partition("::")
            files.setdefault(path, []).append((index, name))
        self._tracer.start()
        for path, tests in files.items():
            self._run_file(path, tests)
        self._tracer.stop()

    def _run_file(self, path: str, tests: list[tuple[int, str]]) -> None:
        self._current = [index for index, _ in tests]
        self._channel.tell(start=self._current)
        self._begin()
        try:
            module = self._load(path)
        except (SystemExit, Exception) as error:  # noqa: BLE001 - task code may raise anything at import
            detail = self.describe((type(error), error, error.__traceback__))
            for index in self._current:
                self._channel.tell(index=index, status="error", detail=detail, steps=self._take_steps(), lines={})
            return
        self._channel.tell(imported=self._take_steps())
        classes: dict[str, list[tuple[int, str]]] = {}
        for index, name in tests:
            classes.setdefault(name.partition(".")[0], []).append((index, name.partition(".")[2]))
        for name, methods in classes.items():
            self._run_class(module, name, methods)

    def _load(self, path: str) -> ModuleType:
        name = path.removesuffix(".py").replace("/", ".")
        if name in sys.modules:
            return sys.modules[name]
        file = os.path.join(self._root, path)
        spec = ModuleSpec(name, _loader_for(name, file), origin=file)
        spec.has_location = True
        module = sys.modules[name] = module_from_spec(spec)
        assert spec.loader is not None
        spec.loader.exec_module(module)
        return module

    def _run_class(self, module: ModuleType, name: str, methods: list[tuple[int, str]]) -> None:
        cls = getattr(module, name, None)
        cases: dict[int, unittest.TestCase] = {}
        for index, method in methods:
            if isinstance(cls, type) and issubclass(cls, unittest.TestCase) and callable(getattr(cls, method, None)):
                cases[index] = cls(method)
            else:
                self._channel.tell(index=index, status="error", detail="no such test", steps=0, lines={})
        if cases:
            self._current = list(cases)
            self._channel.tell(start=self._current)
            _Result(self, cases).run()

    def begin_test(self, index: int) -> None:
        """Counters and the CPU limit start anew."""
        self._current = [index]
        self._channel.tell(start=self._current)
        self._begin()

    def finish_test(self, index: int, status: str, detail: str) -> None:
        """Tell a result and what it cost."""
        lines = self._tracer.lines() if self._coverage else {}
        lines = {path: found for path, found in lines.items() if path not in self._uncovered}
        self._channel.tell(index=index, status=status, detail=detail, steps=self._take_steps(), lines=lines)

    def describe(self, error: ExcInfo) -> str:
        """The end of a traceback: frames of the workspace only, relative paths, no addresses, one size."""
        kind, value, trace = error
        try:
            text = str(value)
        except Exception as broken:  # noqa: BLE001 - __str__ of a task's exception may raise anything
            text = f"<{type(broken).__name__} in __str__>"
        frames: list[str] = []
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_filename.startswith(self._root):
                line = _line_of(code.co_filename, trace.tb_lineno)
                place = f'  File "{code.co_filename[len(self._root) :]}", line {trace.tb_lineno}, in {code.co_name}'
                frames.append(f"{place}\n    {line}" if line else place)
            trace = trace.tb_next
        if isinstance(value, SyntaxError) and (value.filename or "").startswith(self._root):
            text = f"{value.msg} ({(value.filename or '')[len(self._root) :]}, line {value.lineno})"
        name = getattr(kind, "__qualname__", "Error")
        tail = clean(f"{name}: {text}" if text else name, self._root)
        if len(tail) > MOST_DETAIL * 2 // 3:
            half = MOST_DETAIL // 3
            tail = f"{tail[: half - 3]} … {tail[-half:]}"
        head = clean("\n".join(frames[-8:]), self._root)[-(MOST_DETAIL - len(tail) - 1) :]
        return f"{head}\n{tail}" if head else tail

    def _begin(self) -> None:
        random.seed(0)
        self._tracer.reset()
        try:
            import resource
        except ImportError:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        soft = int(used.ru_utime + used.ru_stime) + 1 + self._cpu_s
        resource.setrlimit(resource.RLIMIT_CPU, (soft if hard < 0 else min(soft, hard), hard))

    def _take_steps(self) -> int:
        steps, self._tracer.steps = self._tracer.steps, 0
        return steps

    def _exceeded(self, path: str, line: int, function: str) -> None:
        # Nothing is raised: the code under test could catch it. The process ends here, whatever it is in.
        place = f"{path[len(self._root) :]}:{line} in {function}"
        lines = self._tracer.lines() if self._coverage else {}
        lines = {p: found for p, found in lines.items() if p not in self._uncovered}
        for index in self._current:
            detail = f"still running after {self._budget:,} lines, at {place}"
            self._channel.tell(index=index, status="timeout", detail=detail, steps=self._budget, lines=lines)
        self._channel.tell(stopped=True)
        self._exit(0)


class _Result(unittest.TestResult):
    """Turns unittest's events on the tests of one class into one outcome per test."""

    def __init__(self, runner: Runner, cases: Mapping[int, unittest.TestCase]) -> None:
        super().__init__()
        self._runner = runner
        self._cases = cases
        self._index = {id(case): index for index, case in cases.items()}
        self._left = list(cases)
        self._status, self._detail = "", ""

    def run(self) -> None:
        """Class fixtures included; tests that never began share what their fixtures raised."""
        unittest.TestSuite(self._cases.values()).run(self)
        for index in self._left:
            self._runner.finish_test(index, self._status or "error", self._detail or "did not run")

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._status, self._detail = "", ""
        self._runner.begin_test(self._index[id(test)])

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        index = self._index[id(test)]
        self._left.remove(index)
        self._runner.finish_test(index, self._status or "passed", self._detail)
        self._status, self._detail = "", ""

    def _note(self, status: str, detail: Callable[[], str]) -> None:
        rank = ("", "passed", "skipped", "failed", "error")
        if rank.index(status) > rank.index(self._status):
            self._status, self._detail = status, detail()

    def addError(self, test: Any, err: ExcInfo) -> None:
        self._note("error", lambda: self._runner.describe(err))

    def addFailure(self, test: Any, err: ExcInfo) -> None:
        self._note("failed", lambda: self._runner.describe(err))

    def addSubTest(self, test: Any, subtest: Any, err: ExcInfo | None) -> None:
        if err is not None:
            failed = err[0] is not None and issubclass(err[0], test.failureException)
            self._note("failed" if failed else "error", lambda: self._runner.describe(err))

    def addSkip(self, test: Any, reason: str) -> None:
        self._note("skipped", lambda: str(reason)[:MOST_DETAIL])

    def addExpectedFailure(self, test: Any, err: ExcInfo) -> None:
        self._note("passed", str)

    def addUnexpectedSuccess(self, test: Any) -> None:
        self._note("failed", lambda: "unexpected success")


def _loader_for(name: str, file: str) -> SourceFileLoader:
    for hook in sys.path_hooks:
        try:
            finder = hook(os.path.dirname(file))
        except ImportError:
            continue
        spec = finder.find_spec(Path(file).stem)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            return type(spec.loader)(name, file)
        break
    raise ModuleNotFoundError(f"no test file {os.path.basename(file)}")


def _line_of(path: str, number: int) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for at, line in enumerate(file, 1):
                if at == number:
                    return line.strip()
    except OSError:
        pass
    return ""


def clean(text: str, root: str) -> str:
    """Without what differs between runs or could drive a terminal."""
    return _CONTROL.sub("", _ADDRESS.sub("0", text.replace(root, "")))
