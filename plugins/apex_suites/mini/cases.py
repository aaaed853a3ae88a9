"""Test files: cases as plain unittest code that a developer would read."""

from __future__ import annotations

from collections.abc import Iterable

from .inputs import Case

VISIBLE = "tests/test_visible.py"
HIDDEN = "tests/test_hidden.py"


def class_name(source: str) -> str:
    """Name of the one test class."""
    return "Test" + "".join(part.capitalize() for part in source.split("_"))


def method_name(case: Case) -> str:
    """Name of a case's test."""
    return f"test_{case.called.strip('_')}_{case.number}"


def test_id(path: str, source: str, case: Case) -> str:
    """``path::Class.method``."""
    return f"{path}::{class_name(source)}.{method_name(case)}"


def render_tests(source: str, prelude: str, cases: Iterable[Case]) -> str:
    """A test file."""
    parts = [
        f'"""Tests of {source}."""\n\nimport unittest\n\n{prelude}\n\nclass {class_name(source)}(unittest.TestCase):'
    ]
    parts.extend(f"    def {method_name(case)}(self):\n{body(case)}\n" for case in cases)
    return "\n".join(parts)


def body(case: Case) -> str:
    """The statements of one test."""
    if case.mode == "raises":
        return f"        with self.assertRaises({case.expected}):\n            {case.expression}"
    if case.mode == "named":
        return (
            f"        with self.assertRaises(Exception) as caught:\n            {case.expression}\n"
            f"        self.assertEqual(type(caught.exception).__name__, {case.expected!r})"
        )
    left = case.expression if case.mode == "value" else f"repr({case.expression})"
    right = case.expected if case.mode == "value" else repr(case.expected)
    return f"        self.assertEqual({left}, {right})"
