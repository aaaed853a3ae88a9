"""The project speaks of itself only, and of no machine on which it was made."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FOLDERS = ("work", "opt", "root", "home")
WORDS = ("lib" + "rary/search", "apex" + "venv", "pypi" + "-more", "chat" + "gpt", "co" + "pilot")
UNFINISHED = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error")

PATH = re.compile(r"(?<![\w.~$}/-])/(" + "|".join(FOLDERS) + r")/\w")


def tracked() -> list[Path]:
    """Text files under version control, or of the folders of a checkout without one."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        files = [ROOT / name for name in listed.stdout.splitlines()]
    else:
        files = [
            p for top in ("apex_framework", "plugins", "docs", "examples", "tests") for p in (ROOT / top).rglob("*")
        ]
    return [f for f in files if (f.is_file() and f.suffix in TEXT) or f.name in ("Makefile", "run")]


TEXT = {".py", ".md", ".toml", ".ini", ".yml", ".yaml", ".json", ".txt", ".sh", ".cfg"}


@functools.cache
def lines() -> list[tuple[str, int, str]]:
    found = []
    for file in tracked():
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            found.append((str(file.relative_to(ROOT)), number, line))
    return found


def test_no_file_names_a_folder_of_the_machine_it_was_made_on() -> None:
    assert [f"{f}:{n}: {line.strip()[:80]}" for f, n, line in lines() if PATH.search(line)] == []


@pytest.mark.parametrize("word", WORDS)
def test_no_file_speaks_of_anything_but_the_project(word: str) -> None:
    assert [f"{f}:{n}" for f, n, line in lines() if word in line.lower()] == []


@pytest.mark.parametrize("word", UNFINISHED)
def test_nothing_is_left_unfinished(word: str) -> None:
    code = [(f, n, line) for f, n, line in lines() if f.endswith(".py")]
    assert [f"{f}:{n}" for f, n, line in code if re.search(rf"\b{word}\b", line)] == []


def test_silenced_type_errors_have_a_code_and_a_reason() -> None:
    silence = re.compile(r"#\s*type:\s*ignore(?!\[[\w, -]+\].*#)")
    assert [
        f"{f}:{n}" for f, n, line in lines() if f.endswith(".py") and silence.search(line) and "silence" not in line
    ] == []


def test_the_top_level_is_as_designed() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a checkout")
    top = {name.partition("/")[0] for name in listed.stdout.splitlines()}
    designed = {"apex_framework", "plugins", "contrib", "examples", "tests", "docs"}
    designed |= {"pyproject.toml", "tox.ini", "README.md", "Makefile", "LICENSE"}
    assert {name for name in top if not name.startswith(".")} <= designed
