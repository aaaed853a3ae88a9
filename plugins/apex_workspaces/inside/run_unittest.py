"""Runs unittest's tests by path and name."""

import importlib
import os
import sys
import unittest
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from typing import Any

from .intact import Intact
from .telling import MOST_DETAIL, describe

_RANK = ("", "passed", "skipped", "failed", "error")


def run(job: Any) -> int:
    """Every test, file by file in the order given; 0 when all passed."""
    intact = Intact()
    files = {}  # type: dict[str, list[tuple[int, str]]]
    for test, index in sorted(job.todo.items(), key=lambda pair: pair[1]):
        path, _, name = test.partition("::")
        files.setdefault(path, []).append((index, name))
    worst = 0
    for path, tests in files.items():
        worst |= _File(job, intact, path, tests).run()
    return worst


def _load(root: str, path: str) -> Any:
    """The module of a test file, from that file: not from a package, an extension or byte code of the same name."""
    name = path[: -len(".py")].replace("/", ".")
    if name in sys.modules:
        return sys.modules[name]
    package = name.rpartition(".")[0]
    if package:
        importlib.import_module(package)
    loader = SourceFileLoader(name, os.path.join(root, path))
    spec = ModuleSpec(name, loader, origin=loader.path)
    spec.has_location = True
    module = sys.modules[name] = module_from_spec(spec)
    try:
        exec(loader.source_to_code(loader.get_data(loader.path), loader.path), vars(module))
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return sys.modules.get(name, module)


class _File:
    def __init__(self, job: Any, intact: Intact, path: str, tests: "list[tuple[int, str]]") -> None:
        self._job, self._intact, self._path, self._tests = job, intact, path, tests

    def run(self) -> int:
        job = self._job
        job.start([index for index, _ in self._tests])
        try:
            module = _load(job.root, self._path)
        except (SystemExit, Exception) as error:  # noqa: BLE001 - a repository may raise anything at import
            detail = describe(job.root, type(error), error, error.__traceback__)
            for index, _ in self._tests:
                job.finish(index, "error", detail)
            return 1
        classes = {}  # type: dict[str, list[tuple[int, str]]]
        for index, name in self._tests:
            classes.setdefault(name.partition(".")[0], []).append((index, name.partition(".")[2]))
        worst = 0
        for name, methods in classes.items():
            worst |= self._run_class(getattr(module, name, None), methods)
        return worst

    def _run_class(self, cls: Any, methods: "list[tuple[int, str]]") -> int:
        cases, worst = {}, 0
        for index, method in methods:
            if isinstance(cls, type) and issubclass(cls, unittest.TestCase) and callable(getattr(cls, method, None)):
                cases[index] = cls(method)
            else:
                self._job.finish(index, "error", "no such test")
                worst = 1
        return worst | _Result(self._job, self._intact, cases).run_all() if cases else worst


class _Result(unittest.TestResult):
    """Turns unittest's events on the tests of one class into one outcome per test."""

    def __init__(self, job: Any, intact: Intact, cases: "dict[int, unittest.TestCase]") -> None:
        super().__init__()
        self._job, self._intact, self._cases = job, intact, cases
        self._index = {id(case): index for index, case in cases.items()}
        self._left = list(cases)
        self._status, self._detail, self._worst = "", "", 0

    def run_all(self) -> int:
        self._job.start(list(self._left))
        unittest.TestSuite(self._cases.values()).run(self)
        for index in list(self._left):
            self._tell(
                index, "error" if self._status in ("", "passed") else self._status, self._detail or "did not run"
            )
        return self._worst

    def startTest(self, test: "unittest.TestCase") -> None:
        super().startTest(test)
        self._status, self._detail = "", ""
        self._job.start([self._index[id(test)]])

    def stopTest(self, test: "unittest.TestCase") -> None:
        super().stopTest(test)
        index = self._index[id(test)]
        self._left.remove(index)
        self._tell(index, self._status or "error", self._detail or ("" if self._status else "ended without a result"))
        self._status, self._detail = "", ""

    def _tell(self, index: int, status: str, detail: str) -> None:
        name = self._intact.replaced()
        if name:
            status, detail = "error", f"{name} was replaced: what it says does not count"
        if status not in ("passed", "skipped"):
            self._worst = 1
        self._job.finish(index, status, detail)

    def _note(self, status: str, detail: str) -> None:
        if _RANK.index(status) > _RANK.index(self._status):
            self._status, self._detail = status, detail

    def _describe(self, err: "tuple[Any, Any, Any]") -> str:
        return describe(self._job.root, *err)

    def addSuccess(self, test: "unittest.TestCase") -> None:
        self._note("passed", "")

    def addError(self, test: Any, err: Any) -> None:
        self._note("error", self._describe(err))

    def addFailure(self, test: Any, err: Any) -> None:
        self._note("failed", self._describe(err))

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self._note("failed" if failed else "error", self._describe(err))

    def addSkip(self, test: Any, reason: str) -> None:
        self._note("skipped", str(reason)[:MOST_DETAIL])

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self._note("passed", "")

    def addUnexpectedSuccess(self, test: Any) -> None:
        self._note("failed", "unexpected success")
