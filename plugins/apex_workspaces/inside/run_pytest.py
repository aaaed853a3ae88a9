"""Runs pytest with a reporter of our own. What counts is what the reporter saw a test raise, not what reports say of it.

The repository's code runs in this process, and its conftest files are pytest plugins. Wherever one of them, or a module of
the repository, stands between a test and its outcome, the two are compared; what disagrees has not passed.
"""

import unittest
from typing import Any

import pytest

from .intact import Intact
from .telling import MOST_DETAIL, clean, describe

_OPTIONS = (
    "-q",
    "--tb=no",
    "--capture=no",
    "-p",
    "no:cacheprovider",
    "-o",
    "addopts=",
    "--continue-on-collection-errors",
)
_NOTHING_COLLECTED = 5
_SKIP = pytest.skip.Exception
_OURS_TO_ANSWER = ("pytest_pyfunc_call", "pytest_runtest_protocol")


def run(job: Any) -> int:
    """Collect, or run what was asked for; pytest's exit status."""
    reporter = Reporter(job)
    args = [*_OPTIONS, "--rootdir=" + job.root, *job.args, *(["--collect-only"] if job.collect else []), "--"]
    status = int(pytest.main([*args, *job.paths], plugins=[reporter]))
    return 0 if status == _NOTHING_COLLECTED else status


class Reporter:
    """One test at a time: begun, watched, told."""

    def __init__(self, job: Any) -> None:
        self._job, self._intact = job, Intact()
        self._phases = {}  # type: dict[str, Any]
        self._seen = []  # type: list[BaseException]
        self._ran, self._foul = False, ""

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            text = clean(str(report.longrepr), self._job.root).strip()[-MOST_DETAIL:]
            self._job.tell(broken=report.nodeid.partition("::")[0], detail=text)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: Any, config: Any, items: "list[Any]") -> None:
        if self._job.collect:
            return
        wanted = [item for item in items if item.nodeid in self._job.todo]
        items[:] = wanted

    def pytest_collection_finish(self, session: Any) -> None:
        if self._job.collect:
            ids = [item.nodeid for item in session.items]
            for start in range(0, len(ids), 500):
                self._job.tell(found=ids[start : start + 500])

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Any:
        index = self._job.todo.pop(item.nodeid, None)
        if index is None:
            yield
            return
        self._phases, self._seen, self._ran = {}, [], False
        self._job.start([index])
        self._foul = self._stands_between(item)
        self._watch(item)
        yield
        status, detail = self._judge()
        self._job.finish(index, status, detail)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        # A failure stays one: retries and later words change nothing.
        before = self._phases.get(report.when)
        if before is None or before[0] != "failed":
            text = "" if report.longrepr is None else str(report.longrepr)
            xfail = hasattr(report, "wasxfail")
            self._phases[report.when] = (report.outcome, xfail, text)

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
        # Fixtures' errors pass by here; what a test itself raises was seen before.
        if call.when != "call" and call.excinfo is not None:
            self._seen.append(call.excinfo.value)
        yield

    def _watch(self, item: Any) -> None:
        """See what the test raises before any hook or plugin does."""
        inner = item.runtest

        def runtest() -> None:
            self._ran = True
            try:
                inner()
            except BaseException as error:
                self._seen.append(error)
                raise
            # Tests of unittest's classes do not raise: they leave what they raised here.
            for found in list(getattr(item, "_excinfo", None) or ()):
                self._seen.append(found.value)

        item.runtest = runtest

    def _stands_between(self, item: Any) -> str:
        """What of the repository's own would answer for the test, or nothing."""
        if "runtest" in vars(item):
            return "the test's runtest was replaced"
        code = getattr(type(item).runtest, "__code__", None)
        if code is None or code.co_filename.startswith(self._job.root):
            return f"{type(item).__name__}.runtest comes from the repository"
        for name in _OURS_TO_ANSWER:
            caller = getattr(item.ihook, name)
            if not type(caller).__module__.startswith(("pluggy", "_pytest")):
                return f"the hook {name} was replaced"
            for impl in caller.get_hookimpls():
                code = getattr(impl.function, "__code__", None)
                if impl.plugin is not self and (code is None or code.co_filename.startswith(self._job.root)):
                    where = code.co_filename[len(self._job.root) :] if code else "?"
                    return f"{where} answers {name} itself"
        return ""

    def _judge(self) -> "tuple[str, str]":
        root = self._job.root
        foul = self._foul or self._intact.replaced()
        if foul:
            return "error", f"{clean(foul, root)}: what it says does not count"
        raised = [e for e in self._seen if not _is_skip(e)]
        outcomes = {when: outcome for when, (outcome, _, _) in self._phases.items()}
        if any(xfail for _, xfail, _ in self._phases.values()) and "failed" not in outcomes.values():
            return "skipped", "expected to fail" if "skipped" in outcomes.values() else "expected to fail, but passed"
        if raised:
            error = raised[0]
            if "failed" not in outcomes.values():
                told = ", ".join(sorted(set(outcomes.values()))) or "nothing"
                return "error", f"reported as {told}, but it raised {describe(root, type(error), error, None)}"
            failed = outcomes.get("call") == "failed"
            return "failed" if failed else "error", describe(root, type(error), error, error.__traceback__)
        if "failed" in outcomes.values():
            text = next(text for outcome, _, text in self._phases.values() if outcome == "failed")
            return "failed", clean(text, root)[-MOST_DETAIL:] or "failed"
        if "skipped" in outcomes.values() or self._seen:
            text = next((text for outcome, _, text in self._phases.values() if outcome == "skipped"), "")
            return "skipped", clean(text, root)[-MOST_DETAIL:]
        if not self._ran or outcomes.get("call") != "passed":
            return "error", "did not run"
        return "passed", ""


def _is_skip(error: BaseException) -> bool:
    return isinstance(error, (_SKIP, unittest.SkipTest))
