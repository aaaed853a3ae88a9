"""Numbers of the experiments' pages are made again from what is kept beside them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from claims import PAGES
from claims.numbers import DATA, EVIDENCE, NUMBER, one_line, page_of, untold, wrong

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Page:
    """A page, and what it has to say."""

    name: str
    home: Path
    """Where what is kept was unpacked."""
    claims: Sequence[str]

    @property
    def module(self) -> ModuleType:
        return PAGES[self.name]

    @property
    def text(self) -> str:
        return page_of(self.name)


@pytest.fixture(scope="module", params=PAGES)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Page:
    name, home = str(request.param), tmp_path_factory.mktemp("kept")
    return Page(name, home, list(PAGES[name].claims(home)))


def test_a_page_says_what_its_episodes_say(page: Page) -> None:
    assert f"data/{page.name}" in page.text
    assert wrong(page.text, page.claims) == []


def test_every_number_of_a_page_is_made_again_or_named_as_one_that_is_not(page: Page) -> None:
    given = page.module.GIVEN
    assert [part for part in given if one_line(part) not in one_line(page.text)] == []
    assert untold(page.text, [*page.claims, *given]) == []
    assert "Not made again by CI: " in page.text


def test_a_figure_is_drawn_from_what_is_kept(page: Page) -> None:
    drawn = page.module.figures(page.home) if hasattr(page.module, "figures") else {}
    assert set(re.findall(r"\]\(figures/([^)]+)\)", page.text)) == set(drawn)
    for file, figure in drawn.items():
        assert (EVIDENCE / "figures" / file).read_text(encoding="utf-8") == figure, file


def test_a_changed_number_is_found(page: Page) -> None:
    text = one_line(page.text)
    for before, after in page.module.PLANTED:
        assert before in text
        assert wrong(text.replace(before, after), page.claims), f"{before} was changed, and nobody saw it"


@pytest.mark.parametrize(
    ("claim", "found"),
    [
        ("solves 40.5 % of 800 tasks", []),
        ("800 tries", ["'800 tries', the page: ['9,800 tries']"]),
        ("solves 40.6 % of 800 tasks", ["'solves 40.6 % of 800 tasks', the page: ['solves 40.5 % of 800 tasks']"]),
        ("in 3 runs", ["'in 3 runs', the page: ['in 3 runs', 'in 4 runs']"]),
        ("in 3 parts", ["'in 3 parts', the page: nothing of the kind"]),
    ],
)
def test_a_claim_is_wrong_where_the_page_says_another_number_anywhere_or_none(claim: str, found: list[str]) -> None:
    page = "It solves 40.5 %\nof 800 tasks, in 3 runs. Again, in 4 runs: it solves 40.5 % of 800 tasks, 9,800 tries."
    assert wrong(page, [claim]) == found


def test_a_number_that_nobody_makes_again_is_found(page: Page) -> None:
    assert untold(f"{page.text}\nIt solves 123 tasks.", [*page.claims, *page.module.GIVEN]) != []


def test_what_is_kept_belongs_to_a_page() -> None:
    kept = [path.name.partition(".")[0] for path in DATA.glob("*.*z")]
    assert all(any(name.startswith(page) for page in PAGES) for name in kept)
    assert all(any(name.startswith(page) for name in kept) for page in PAGES)


def test_summaries_say_no_number_that_the_pages_they_name_do_not() -> None:
    seen = 0
    for summary in sorted(EVIDENCE.glob("*/M*/F*/T*_summary.md")):
        text = summary.read_text(encoding="utf-8")
        pages = [page_of(name) for name in PAGES if f"docs/evidence/{name}.md" in text]
        measured = text.partition("## Measured")[2].partition("\n## ")[0]
        numbers = set(re.findall(rf"(?<![\w.]){NUMBER}", re.sub(r"`[^`]*`", "", measured))) if pages else set()
        assert numbers <= {number for page in pages for number in re.findall(NUMBER, page)}, summary
        seen += len(numbers)
    assert seen


def test_the_plan_that_comes_along_has_the_matched_rate_of_the_registered_one() -> None:
    matched = next(arm for arm in arms_of(EVIDENCE / "plans" / "headline.toml") if arm.startswith("random_switch:"))
    assert f"`{matched}`" in page_of("headline")
    assert arms_of(ROOT / "examples" / "experiments" / "headline.toml") == arms_of(EVIDENCE / "plans" / "headline.toml")
    shown = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert ", ".join(arms_of(ROOT / "examples" / "experiments" / "headline.toml")) in shown


def arms_of(plan: Path) -> list[str]:
    (part,) = tomllib.loads(plan.read_text(encoding="utf-8"))["part"]
    return list(part["arms"])
