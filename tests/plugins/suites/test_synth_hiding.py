"""Hidden tests: what is taken out of a test file is gone, and all else is as it was."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from apex_suites.synth.hiding import function_of, functions_in, without

TEXT = '''"""Tests."""

import pytest


@pytest.mark.parametrize(
    "n", [1, 2]
)
def test_a(n):
    """Text with
def test_b(): in it."""
    assert n


def helper(): return 1


class TestMany:
    def test_c(self):
        assert helper()

    async def test_d(self):
        pass


class TestOne:
    def test_e(self):
        pass


def test_f():
    assert True
'''
NAMES = sorted(functions_in(TEXT))


def test_names_are_those_of_test_ids() -> None:
    assert NAMES == ["TestMany.test_c", "TestMany.test_d", "TestOne.test_e", "helper", "test_a", "test_f"]
    assert function_of("tests/x.py::TestMany::test_c[1-a]") == "TestMany.test_c"
    assert function_of("tests/x.py::test_a[x::y]") == "test_a"


@given(st.sets(st.sampled_from(NAMES)))
def test_exactly_these_are_gone_and_it_is_still_python(names: set[str]) -> None:
    left = without(TEXT, names)
    assert functions_in(left) == set(NAMES) - names
    kept = [ast.unparse(n) for n in ast.parse(left).body if not isinstance(n, ast.ClassDef)]
    assert kept == [
        ast.unparse(n)
        for n in ast.parse(TEXT).body
        if not isinstance(n, ast.ClassDef) and getattr(n, "name", "") not in names
    ]
    assert left.endswith("\n")
    assert names or left == TEXT
