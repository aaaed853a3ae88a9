"""``docs/security.md`` tells the truth: each row has tests that exist, or is about a part that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apex_framework.testing.attacks import attacks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
OPEN = {58, 59, 60, 61}
"""Rows about the world state, which does not exist."""
PROOF = "test_the_whole_catalogue_on_a_star_changes_nothing_that_it_may_not"


def names_of_tests() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))}


def listed() -> dict[int, set[str]]:
    """Row -> tests named in it on the page."""
    rows = re.findall(r"^\| A(\d+) \|(.*)$", PAGE, re.MULTILINE)
    return {int(number): set(re.findall(r"`(test_\w+)`", text)) for number, text in rows}


@pytest.mark.parametrize("row", range(1, 74))
def test_a_row_is_proved_by_a_test_that_exists_or_about_what_does_not_exist(row: int) -> None:
    assert row in listed(), f"A{row} is not on the page"
    assert bool(listed()[row]) == (row not in OPEN)
    assert bool(re.search(rf"^\| A{row} \|.*\| not existing \|$", PAGE, re.MULTILINE)) == (row in OPEN)
    assert listed()[row] <= names_of_tests(), (
        f"A{row} names tests that are not there: {listed()[row] - names_of_tests()}"
    )


def test_every_row_that_the_hostile_model_plays_names_its_proof() -> None:
    played = {int(attack.row[1:]) for attack in attacks()}
    assert {row for row in played if PROOF not in listed()[row]} == set()


def test_every_test_that_is_named_after_a_row_is_on_the_page() -> None:
    named = {
        (int(number), name)
        for name in names_of_tests()
        if name.startswith("test_a")
        for number in re.findall(r"_a(\d\d)(?=_)", name)
    }
    missing = sorted(name for row, name in named if row in listed() and name not in listed()[row])
    assert [name for name in missing if not name.startswith("test_a73_the_search")] == []
