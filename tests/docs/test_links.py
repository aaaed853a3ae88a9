"""Links between pages lead somewhere, and paths that pages name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
PARAMS = [pytest.param(p, id=p.relative_to(ROOT).as_posix()) for p in PAGES]
FOLDERS = ("apex_framework/", "plugins/", "tests/", "docs/", "examples/", ".ci/", ".github/")


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def is_there(page: Path, path: str) -> bool:
    """From the project's folder, or from the page's, as within an example."""
    return (ROOT / path).exists() or (page.parent / path).exists()


@pytest.mark.parametrize("page", PARAMS)
def test_relative_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PARAMS)
def test_paths_that_are_named_exist(page: Path) -> None:
    named = [word.split("#")[0] for word in re.findall(r"`([^`\s]+)`", prose(page)) if word.startswith(FOLDERS)]
    elsewhere = {"tests/test_visible.py", "tests/test_hidden.py"}  # in a task's repository
    assert [w for w in named if not set(w) & set("*{<") and w not in elsewhere and not is_there(page, w)] == []
