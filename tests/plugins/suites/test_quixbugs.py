"""``quixbugs``: programs of our own in the layout of the public checkout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from apex_framework.errors import UsageError
from apex_framework.testing import check_suite
from apex_suites.quixbugs.suite import QuixBugsSuite
from apex_workspaces.local import LocalWorkspaces

TOTALS = """def totals(numbers):
    total = 0
    for number in numbers:
        total += number
        yield total
"""
HALVINGS = """def halvings(number):
    steps = 0
    while number > 1:
        number = number // 2
        steps += 1
    return steps
"""
LENGTH = """def length(node):
    count = 0
    while node:
        count += 1
        node = node.successor
    return count
"""
NODE = """class Node:
    def __init__(self, value, successor=None):
        self.value, self.successor = value, successor
"""
PYTHON_TESTS = """import pytest
from node import Node

if pytest.use_correct:
    from correct_python_programs.length import length
else:
    from python_programs.length import length


def chain(size):
    return Node(size, chain(size - 1)) if size else None


def test1():
    assert length(chain(1)) == 1


def test2():
    assert length(chain(2)) == 2


def test3():
    many = chain(30)
    assert length(many) == 30
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    texts = {
        "correct_python_programs/totals.py": TOTALS,
        "python_programs/totals.py": TOTALS.replace("+=", "="),
        "json_testcases/totals.json": "[[[1, 2, 3]], [1, 3, 6]]\n[[[]], []]\n[[[0.1, 0.2]], [0.1, 0.3]]\n[[[4, 4]], [4, 8]]\n",
        "correct_python_programs/halvings.py": HALVINGS,
        "python_programs/halvings.py": HALVINGS.replace("> 1", ">= 0"),
        "json_testcases/halvings.json": "[1, 0]\n[[8], 3]\n[[9], 3]\n",
        "correct_python_programs/length.py": LENGTH,
        "python_programs/length.py": LENGTH.replace("while node:", "while node.successor:"),
        "python_programs/node.py": NODE,
        "correct_python_programs/node.py": NODE,
        "python_testcases/test_length.py": PYTHON_TESTS,
    }
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def make(checkout: Path, tmp_path: Path) -> Callable[[], QuixBugsSuite]:
    return lambda: QuixBugsSuite(data=checkout, cache_dir=tmp_path / "cache", workspaces=LocalWorkspaces)


def test_it_keeps_the_contract(make: Callable[[], QuixBugsSuite]) -> None:
    check_suite(make, split="test", sample=3)


def test_json_and_python_cases_make_tasks_and_the_right_programs_solve_them(
    make: Callable[[], QuixBugsSuite], checkout: Path
) -> None:
    suite = make()
    provider = suite.workspaces()
    try:
        tasks = suite.tasks("test")
        assert [t.id for t in tasks] == ["halvings", "length", "totals"]
        assert "still running" in tasks[0].issue and "node.py" in tasks[1].files
        assert sum(tasks[1].files["tests/test_visible.py"].count(f"chain({n})") for n in (1, 2, 30)) == 1
        for task in tasks:
            workspace = provider.create(task)
            right = (checkout / "correct_python_programs" / f"{task.id}.py").read_text()
            assert right not in task.files.values()
            (workspace.root / "program.py").write_text(right)
            assert suite.grade(task, workspace).success, task.id
    finally:
        provider.close()


@pytest.mark.parametrize("split", ["train", "dev"])
def test_nobody_tunes_on_it(split: str, make: Callable[[], QuixBugsSuite]) -> None:
    with pytest.raises(UsageError, match="nobody tunes on it"):
        make().tasks(split)


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("json_testcases/totals.json", "[[1], 2]\n[[1]\n", "totals.json:2: not JSON"),
        ("json_testcases/totals.json", "[[1], 2]\n[1, 2, 3]\n", "totals.json:2: no case"),
        ("json_testcases/totals.json", "\n", "totals.json: it holds no case"),
        ("python_programs/totals.py", "def totals(:", "totals.py: field 'totals' is no Python"),
        ("python_testcases/test_length.py", "def test(node): pass\n", "test_length.py:1: test has parameters"),
        ("python_testcases/test_length.py", "x = 1\n", "test_length.py: it holds no test"),
    ],
)
def test_wrong_files_are_told(
    path: str, text: str, told: str, make: Callable[[], QuixBugsSuite], checkout: Path
) -> None:
    (checkout / path).write_text(text)
    with pytest.raises(UsageError, match=told) as caught:
        make().tasks("test")
    assert "\n" not in caught.value.cause


def test_what_is_no_checkout_is_told(make: Callable[[], QuixBugsSuite], checkout: Path) -> None:
    (checkout / "json_testcases/totals.json").write_bytes(b"[[1], 2]\n\xff\n")
    with pytest.raises(UsageError, match=r"totals\.json:2: byte 9 is not UTF-8"):
        make().tasks("test")
    for file in (checkout / "correct_python_programs").iterdir():
        file.unlink()
    with pytest.raises(UsageError, match="no program has a right form"):
        make().tasks("test")
    (checkout / "correct_python_programs").rmdir()
    with pytest.raises(UsageError, match="correct_python_programs: there is no such folder"):
        make().tasks("test")
