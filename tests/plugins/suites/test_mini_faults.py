"""The operator catalogue: what each mistake looks like, where it may be made, and what it leaves alone."""

from __future__ import annotations

import ast
import textwrap

import pytest

from apex_suites.mini.faults import Fault, find_faults, mutate
from apex_suites.mini.operators_known import KNOWN
from apex_suites.mini.operators_other import CATALOGUE, OTHER
from apex_suites.mini.sources import module_file
from apex_suites.mini.text import SourceText


def made_by(name: str, body: str) -> list[str]:
    """What an operator makes of a function's body."""
    code = "def f(self, a, b=1):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    source = SourceText(code)
    entry = tuple(e for e in CATALOGUE if e.name == name)
    faults = find_faults("m.py", source, set(range(2, code.count("\n") + 1)), entry)
    return [mutate(source, (fault,)) for fault in faults]


@pytest.mark.parametrize(
    ("name", "body", "part"),
    [
        ("comparison", "return a < b", "a <= b"),
        ("comparison", "return a is None", "a is not None"),
        ("off_by_one", "return a + 1", "return a\n"),
        ("off_by_one", "return range(a)", "range(a - 1)"),
        ("operator", "return a and b", "a or b"),
        ("operator", "a += b", "a -= b"),
        ("constant", "return 3", "return 4"),
        ("constant", "return True", "return False"),
        ("argument_swap", "return g(a, b)", "g(b, a)"),
        ("missing_guard", "if a:\n    return b\nreturn a", "def f(self, a, b=1):\n    return a\n"),
        ("wrong_name", "return a", "return b"),
        ("missing_return", "return a.x", "    a.x\n"),
        ("boundary_slice", "return a[1:]", "a[2:]"),
        ("condition_negation", "if not a:\n    b()", "if a:"),
        ("removed_statement", "a.x()\nreturn a", "def f(self, a, b=1):\n    return a\n"),
        ("early_return", "for x in a:\n    b(x)\nreturn b", "        b(x)\n        return b\n    return b"),
        ("wrong_default", "return b", "b=0"),
        ("exception_type", "raise ValueError(a)", "raise TypeError(a)"),
        ("missing_call", "return a.strip()", "return a\n"),
        ("missing_call", "return int(a)", "return a\n"),
        ("swapped_branches", "return a if b else 0", "return 0 if b else a"),
        ("loop_control", "for x in a:\n    break", "continue"),
        ("wrong_method", "return a.find(b)", "a.rfind(b)"),
        ("statement_order", "a = b\nb = 2", "b = 2\n    a = b"),
        ("lost_total", "a += b", "a = b"),
        ("lost_else", "if a:\n    b()\nelse:\n    a()", "else:\n        pass"),
        ("swapped_targets", "a, b = b", "b, a = b"),
    ],
)
def test_each_operator_makes_its_mistake(name: str, body: str, part: str) -> None:
    assert any(part in text for text in made_by(name, body))


def test_the_other_attribute_is_one_of_the_same_class() -> None:
    source = SourceText("class C:\n    def __init__(self):\n        self.left = self.list = 1\n        g(self.left)\n")
    entry = tuple(e for e in CATALOGUE if e.name == "wrong_attribute")
    assert "g(self.list)" in mutate(source, tuple(find_faults("m.py", source, {3, 4}, entry)))


def test_operators_have_names_of_their_own_and_many_are_unknown_to_the_solver() -> None:
    names = [e.name for e in CATALOGUE]
    assert len(set(names)) == len(names)
    assert all(e.in_vocabulary for e in KNOWN) and not any(e.in_vocabulary for e in OTHER)
    assert len(OTHER) / len(CATALOGUE) >= 0.3


def all_faults(module: str) -> tuple[SourceText, list[Fault]]:
    file = module_file(module)
    assert file is not None
    source = SourceText(file.read_text(encoding="utf-8"))
    return source, list(find_faults("m.py", source, range(1, source.text.count("\n") + 1), CATALOGUE))


@pytest.mark.parametrize("module", ["textwrap", "shlex", "heapq"])
def test_a_fault_changes_its_own_lines_and_no_other(module: str) -> None:
    source, faults = all_faults(module)
    assert len(faults) > 100
    before = source.text.split("\n")
    for fault in faults[::7]:
        after = mutate(source, (fault,)).split("\n")
        tail = len(before) - fault.end_line
        assert after[: fault.line - 1] == before[: fault.line - 1]
        assert after[len(after) - tail :] == before[len(before) - tail :]
        assert fault.first <= fault.line <= fault.end_line <= fault.last + 1


def test_nearly_every_fault_compiles_and_differs() -> None:
    source, faults = all_faults("textwrap")
    faults = faults[::6]
    good = 0
    for fault in faults:
        try:
            good += ast.dump(ast.parse(mutate(source, (fault,)))) != ast.dump(source.tree)
        except SyntaxError:
            continue
    assert good / len(faults) > 0.97


def test_only_executed_lines_are_touched() -> None:
    source = SourceText("def f(a):\n    if a < 1:\n        return a + 1\n    return a < 2\n")
    found = {fault.line for fault in find_faults("m.py", source, {2, 4}, CATALOGUE)}
    assert found <= {2, 4}
