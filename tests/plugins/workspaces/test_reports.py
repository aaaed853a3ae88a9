"""A report says the same whatever the machine does, and shows what a developer needs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apex_framework.errors import WorkspaceError
from apex_framework.interfaces import Task, TestReport
from apex_workspaces.discovery import find_tests
from apex_workspaces.local import LocalWorkspaces
from apex_workspaces.scratch import sweep

MIXED = """
import random, sys, time, unittest
from pkg.m import add

def setUpModule():
    sys.stdout.write("set up")

class Base(unittest.TestCase):
    def test_inherited(self):
        self.assertEqual(add(1, 1), 2)

class T(Base):
    @classmethod
    def setUpClass(cls):
        cls.value = random.random()
    def test_order_of_a_set(self):
        self.fail(str(set("abcdefgh")) + str(self.value) + repr(object()) + time.strftime("%Z"))
    def test_sub(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertNotEqual(i, 1)
    @unittest.skip("because")
    def test_skip(self):
        pass
    @unittest.expectedFailure
    def test_expected(self):
        self.fail()
    def test_loop(self):
        while True:
            add(1, 1)

class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("no class")
    def test_never(self):
        pass
"""


BURN = "print('ready', flush=True)\nwhile True: pass"


@contextmanager
def load(processes: int) -> Iterator[None]:
    burners = [subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE) for _ in range(processes)]
    try:
        for burner in burners:
            assert burner.stdout is not None and burner.stdout.readline() == b"ready\n"
        yield
    finally:
        for burner in burners:
            with burner:
                burner.kill()


def test_the_same_report_twice_in_a_row_under_load_and_from_another_provider(
    provider: LocalWorkspaces, make_task: Callable[..., Task]
) -> None:
    def report(maker: LocalWorkspaces) -> TestReport:
        return maker.create(make_task(MIXED, step_budget=20_000)).run_tests(coverage=True)

    first = report(provider)
    assert report(provider) == first
    with load(6):
        assert report(provider) == first
    other = LocalWorkspaces()
    try:
        assert report(other) == first
    finally:
        other.close()
    statuses = {o.id.rpartition("::")[2]: o.status for o in first.outcomes}
    assert statuses == {
        "Base.test_inherited": "passed",
        "T.test_order_of_a_set": "failed",
        "T.test_sub": "failed",
        "T.test_skip": "skipped",
        "T.test_expected": "passed",
        "T.test_loop": "timeout",
        "T.test_inherited": "passed",
        "Broken.test_never": "error",
    }


def test_coverage_holds_lines_of_the_code_and_not_of_the_tests(
    provider: LocalWorkspaces, make_task: Callable[..., Task]
) -> None:
    module = "def add(a, b):\n    if a > 5:\n        return 0\n    return a + b\n"
    tests = "import unittest\nfrom pkg.m import add\nclass T(unittest.TestCase):\n    def test_a(self): add(1, 1)\n    def test_b(self): add(6, 1)\n"
    report = provider.create(make_task(tests, module)).run_tests(coverage=True)
    assert [dict(o.lines) for o in report.outcomes] == [{"pkg/m.py": (2, 4)}, {"pkg/m.py": (2, 3)}]


def test_a_module_that_does_not_compile_is_the_error_of_its_tests(
    provider: LocalWorkspaces, make_task: Callable[..., Task]
) -> None:
    tests = "import unittest\nfrom pkg.m import add\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
    report = provider.create(make_task(tests, "def add(:\n")).run_tests()
    assert report.outcomes[0].status == "error"
    assert "SyntaxError" in report.outcomes[0].detail and "pkg/m.py" in report.outcomes[0].detail


def test_an_import_that_never_ends_is_the_timeout_of_its_tests(
    provider: LocalWorkspaces, make_task: Callable[..., Task]
) -> None:
    tests = "import unittest\nfrom pkg.m import add\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
    report = provider.create(make_task(tests, "while True: pass\n")).run_tests()
    assert [o.status for o in report.outcomes] == ["timeout"]


def test_blocked_modules_are_hidden_from_the_task_and_left_to_the_library(
    provider: LocalWorkspaces, make_task: Callable[..., Task]
) -> None:
    tests = """
import sys, unittest
class T(unittest.TestCase):
    def test_import(self):
        with self.assertRaises(ImportError): import heapq
        with self.assertRaises(ImportError): from json import decoder
        with self.assertRaises(ImportError): __import__("_heapq")
        with self.assertRaises(ImportError): __import__("importlib").import_module("json.encoder")
        self.assertNotIn("heapq", sys.modules)
    def test_source(self):
        import os
        path = os.path.join(os.path.dirname(os.__file__), "heapq.py")
        with self.assertRaises(PermissionError): open(path)
    def test_library(self):
        import collections, statistics
        self.assertEqual(collections.Counter("aab").most_common(1), [("a", 2)])
"""
    task = make_task(tests, block=["heapq", "_heapq", "json", "_json"])
    report = provider.create(task).run_tests()
    assert [(o.status, o.detail) for o in report.outcomes] == [("passed", "")] * 3


def test_the_framework_is_not_importable_by_tests(provider: LocalWorkspaces, make_task: Callable[..., Task]) -> None:
    tests = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        with self.assertRaises(ImportError): import apex_framework\n        with self.assertRaises(ImportError): import pluggy\n"
    assert provider.create(make_task(tests)).run_tests().pass_rate == 1.0


def test_hidden_tests_come_as_an_overlay(provider: LocalWorkspaces, make_task: Callable[..., Task]) -> None:
    workspace = provider.create(make_task("import unittest\n"))
    hidden = "import unittest\nfrom pkg.m import add\nclass H(unittest.TestCase):\n    def test_h(self): self.assertEqual(add(2, 2), 4)\n"
    report = workspace.run_tests(["hidden/test_h.py::H.test_h"], overlay={"hidden/test_h.py": hidden})
    assert [(o.id, o.status) for o in report.outcomes] == [("hidden/test_h.py::H.test_h", "passed")]
    assert not (workspace.root / "hidden").exists()
    with pytest.raises(WorkspaceError):
        workspace.run_tests(overlay={"../evil.py": ""})


def test_unknown_tests_are_errors(provider: LocalWorkspaces, make_task: Callable[..., Task]) -> None:
    workspace = provider.create(make_task(MIXED))
    ids = ["tests/test_a.py::T.nothing", "tests/none.py::T.a", "nonsense"]
    assert [o.status for o in workspace.run_tests(ids).outcomes] == ["error"] * 3


def test_discovery_reads_and_never_runs() -> None:
    text = "raise SystemExit\nimport unittest\nclass A(unittest.TestCase):\n    def test_1(self): ...\nclass B(A):\n    async def test_2(self): ...\nclass Mixin:\n    def test_3(self): ...\n"
    assert find_tests(text) == ("A.test_1", "B.test_2", "B.test_1")
    assert find_tests("def (") == ()


def test_an_unknown_runner_names_those_known(provider: LocalWorkspaces, make_task: Callable[..., Task]) -> None:
    with pytest.raises(WorkspaceError, match="unknown runner 'pytest'") as raised:
        provider.create(make_task("", runner="pytest"))
    assert "unittest" in raised.value.remedy


def test_diff_and_savepoints(provider: LocalWorkspaces, make_task: Callable[..., Task]) -> None:
    workspace = provider.create(make_task(""))
    module = workspace.root / "pkg/m.py"
    module.write_text("x = 1\n")
    first = workspace.commit()
    module.write_text("x = 2\n")
    assert workspace.commit() != first
    (workspace.root / "new.txt").write_text("no newline")
    module.chmod(0)
    workspace.rollback()
    fork = workspace.fork()
    assert "+x = 2\n" in workspace.diff() and "new.txt" not in workspace.diff()
    assert fork.diff() == workspace.diff()
    workspace.dispose()
    with pytest.raises(WorkspaceError):
        workspace.run_tests()


def test_scratch_folders_of_dead_processes_are_swept(tmp_path: Path) -> None:
    dead, alive, other = tmp_path / "apex-ws-999999999-x", tmp_path / f"apex-ws-{os.getpid()}-x", tmp_path / "mine"
    for folder in (dead, alive, other):
        (folder / "deep").mkdir(parents=True)
    assert sweep(tmp_path) == [dead]
    assert not dead.exists() and alive.exists() and other.exists()
