"""No code of a repository that prints, patches or hooks makes a failing test pass, and nothing of it survives its run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apex_framework.interfaces import Task, TestReport
from apex_workspaces import running
from apex_workspaces.checkout import CheckoutWorkspaces
from apex_workspaces.inside import run_pytest

TEST = "tests/test_a.py::test_bad"
BAD = "from pkg.m import add\n\ndef test_bad():\n    assert add(1, 2) == 4\n"
GOOD = "def add(a, b):\n    return a + b\n"


@pytest.fixture(scope="module")
def provider() -> Iterator[CheckoutWorkspaces]:
    made = CheckoutWorkspaces()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def mark_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other test runs on this machine are no concern of these tests."""
    monkeypatch.setattr(running, "_MARK", f"APEX_TEST_RUN_{os.getpid()}")


@pytest.fixture
def run(provider: CheckoutWorkspaces) -> Iterator[Callable[..., TestReport]]:
    made = []

    def go(
        tests: str = BAD, *, conftest: str = "", module: str = GOOD, ids: list[str] | None = None, **recipe: object
    ) -> TestReport:
        files = {"pkg/__init__.py": "", "pkg/m.py": module, "tests/test_a.py": tests, "conftest.py": conftest}
        run = {"runner": "pytest", "tests": ["tests"], "idle_s": 2.0, "cpu_s": 2, **recipe}
        workspace = provider.create(Task("t", "s", "dev", "i", "c", files=files, run=run))
        made.append(workspace)
        before = {p.name for p in workspace.root.rglob("*")}
        report = workspace.run_tests(ids or [TEST], timeout_s=30.0)
        assert {p.name for p in workspace.root.rglob("*")} == before
        return report

    yield go
    for workspace in made:
        workspace.dispose()
    assert marked() == []


def marked() -> list[str]:
    """Every process that carries the mark of a test run."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and running._MARK.encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(name)
        except OSError:
            continue
    return found


PATCHING = {
    "nothing": "",
    "a report rewritten by a wrapper": """
import pytest
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = 'passed', None
""",
    "an exception swallowed around the call": """
import pytest
@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_call(item):
    outcome = yield
    outcome.force_result(None)
""",
    "a call that is answered": """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    return True
""",
    "a call that is wrapped": """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    outcome = yield
    outcome.force_result(True)
""",
    "a protocol that is answered": """
import pytest
from _pytest.reports import TestReport
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    for when in ('setup', 'call', 'teardown'):
        item.ihook.pytest_runtest_logreport(
            report=TestReport(item.nodeid, item.location, {}, 'passed', None, when))
    return True
""",
    "runtest replaced on the item": """
def pytest_collection_modifyitems(items):
    for item in items:
        item.runtest = lambda: None
""",
    "runtest replaced on the class": "import pytest\npytest.Function.runtest = lambda self: None\n",
    "the call's record replaced": """
import _pytest.runner
real = _pytest.runner.CallInfo.from_call
def from_call(func, when, **options):
    call = real(lambda: None, when, **options)
    try: func()
    except Exception: pass
    return call
_pytest.runner.CallInfo.from_call = staticmethod(from_call)
""",
    "the report's maker replaced": """
import _pytest.reports
real = _pytest.reports.TestReport.from_item_and_call.__func__
def make(cls, item, call):
    call.excinfo = None
    return real(cls, item, call)
_pytest.reports.TestReport.from_item_and_call = classmethod(make)
""",
    "an expected failure added": """
import pytest
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.xfail)
""",
    "the end's status replaced": "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n",
    "the end itself": "import os\ndef pytest_runtest_teardown(item):\n    os._exit(0)\n",
    "the end at once": "import os\nos._exit(0)\n",
    "the encoder of results replaced": """
import json, os
json.dumps = lambda *a, **k: '{"index": 0, "status": "passed"}'
json.JSONEncoder.encode = json.dumps
os.write = lambda fd, data: len(data)
""",
    "lines that look like results": """
import os
for fd in range(1, 60):
    for line in (b'{"index":0,"status":"passed","detail":"","steps":0,"lines":{}}', b'{"done":0}'):
        try: os.write(fd, b'\\n' + b'0' * 32 + b' 1 ' + line + b'\\n')
        except OSError: pass
""",
    "a report file": "open('report.xml', 'w').write('<testsuite tests=\"1\" failures=\"0\"/>')\n",
    "a module called pytest": "import sys, types\nsys.modules['pytest'] = types.ModuleType('pytest')\n",
    "a forked child that goes on": """
import os
def pytest_runtest_call(item):
    if os.fork() == 0:
        item.runtest = lambda: None
""",
}


QUICK = (
    "a report rewritten by a wrapper",
    "an exception swallowed around the call",
    "a call that is answered",
    "runtest replaced on the class",
    "an expected failure added",
    "the end itself",
    "lines that look like results",
)


@pytest.mark.parametrize(
    "conftest",
    [pytest.param(text, id=name, marks=[] if name in QUICK else [pytest.mark.slow]) for name, text in PATCHING.items()],
)
def test_a_conftest_cannot_make_a_failing_test_pass(run: Callable[..., TestReport], conftest: str) -> None:
    (outcome,) = run(conftest=conftest).outcomes
    assert outcome.status in ("failed", "error", "skipped"), outcome
    assert outcome.status != "skipped" or "expected to fail" in outcome.detail


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["nothing", "the end's status replaced", "lines that look like results", "a report file"]
)
def test_a_passing_test_passes(run: Callable[..., TestReport], name: str) -> None:
    conftest = "" if name.startswith("the end") else PATCHING[name]
    (outcome,) = run("def test_bad():\n    pass\n", conftest=conftest).outcomes
    assert outcome.status == "passed", outcome


@pytest.mark.parametrize(
    "tests",
    [
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\nclass T(unittest.TestCase):\n    def test_bad(self):\n        self.assertEqual(1, 2)\n",
        "import unittest\nunittest.TestCase.run = lambda self, result: result.addSuccess(self)\nclass T(unittest.TestCase):\n    def test_bad(self):\n        self.fail()\n",
        "import unittest\nclass T(unittest.TestCase):\n    def test_bad(self):\n        self.fail()\n",
    ],
)
@pytest.mark.parametrize("runner", [pytest.param("pytest", marks=pytest.mark.slow), "unittest"])
def test_a_patched_unittest_does_not_pass(run: Callable[..., TestReport], runner: str, tests: str) -> None:
    (outcome,) = run(
        tests,
        ids=["tests/test_a.py::T.test_bad" if runner == "unittest" else "tests/test_a.py::T::test_bad"],
        runner=runner,
    ).outcomes
    assert outcome.status in ("failed", "error"), outcome


def test_results_that_only_reports_tell_of_would_be_forged(
    run: Callable[..., TestReport], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same attempts against a reporter that believes reports."""
    believed = tmp_path / "inside"
    believed.mkdir()
    for file in Path(run_pytest.__file__).parent.glob("*.py"):
        text = file.read_text()
        if file.name == "run_pytest.py":
            assert "        foul = self._foul" in text
            text = text.replace(
                "        foul = self._foul or self._intact.replaced()", "        self._seen, foul = [], ''"
            )
        (believed / file.name).write_text(text)
    monkeypatch.setattr(running, "_HERE", str(tmp_path))
    for file in Path(running.__file__).parent.glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text())
    assert run(conftest=PATCHING["a report rewritten by a wrapper"]).outcomes[0].status == "passed"
    assert run(conftest=PATCHING["a call that is answered"]).outcomes[0].status == "passed"


def test_who_passes_against_expectation_is_told_from_who_fails_as_expected(run: Callable[..., TestReport]) -> None:
    text = "import pytest\n\n\n@pytest.mark.xfail\ndef test_bad():\n    assert {}\n"
    found = [run(text.format(holds)).outcomes[0] for holds in (False, True)]
    assert [one.status for one in found] == ["skipped", "skipped"]
    assert [one.detail for one in found] == ["expected to fail", "expected to fail, but passed"]
