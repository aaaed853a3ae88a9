"""``docs/faults.md`` tells the truth: each row has tests that exist, each test of a row is on the page, each bug is too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apex_framework.testing.faults import FAULTS
from apex_framework.testing.invariants import INVARIANTS
from apex_framework.testing.planted.bugs import BUGS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = [*range(1, 41), *range(52, 56)]


def proofs_in_tests() -> set[str]:
    """Names of tests of rows of the catalogue, ``test_fNN_…``, wherever they live."""
    names: set[str] = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        names.update(re.findall(r"def (test_f\d\d_\w+)", file.read_text(encoding="utf-8")))
    return names


def rows_of(name: str) -> set[int]:
    """``test_f01_f02_…`` is a test of rows 1 and 2."""
    prefix = re.match(r"test((?:_f\d\d)+)_", name)
    assert prefix is not None
    return {int(number) for number in re.findall(r"\d\d", prefix[1])}


def listed() -> dict[int, set[str]]:
    """Row -> tests named in it on the page."""
    rows = re.findall(r"^\| F(\d+) \|(.*)$", PAGE, re.MULTILINE)
    return {int(number): set(re.findall(r"`(test_\w+)`", text)) for number, text in rows}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_proved_by_a_test_that_exists(row: int) -> None:
    assert row in listed(), f"F{row} is not on the page"
    proofs = listed()[row]
    assert proofs, f"F{row} has no test"
    assert proofs <= proofs_in_tests(), f"F{row} names tests that are not there: {proofs - proofs_in_tests()}"


def test_every_test_of_a_row_is_on_the_page() -> None:
    missing = [
        (name, f"F{row}")
        for name in sorted(proofs_in_tests())
        for row in rows_of(name)
        if row in ROWS and name not in listed().get(row, ())
    ]
    assert not missing


def names_in_table(heading: str) -> list[str]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def test_every_planted_bug_is_on_the_page_with_an_invariant_that_exists() -> None:
    assert names_in_table("Planted bugs") == [bug.name for bug in BUGS]
    section = PAGE.split("\n## Planted bugs\n")[1]
    caught = re.findall(r"^\| `\w+` \|.*\| `(\w+)` \| \d+ \|$", section, re.MULTILINE)
    assert len(caught) == len(BUGS)
    assert set(caught) <= set(INVARIANTS)


def test_every_simulated_fault_and_every_invariant_is_on_the_page() -> None:
    assert names_in_table("What goes wrong") == list(FAULTS)
    assert names_in_table("What is checked") == list(INVARIANTS)
