"""Summaries of tasks name only files and commands that exist, and are short."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUMMARIES = sorted((ROOT / "docs" / "evidence").rglob("*_summary.md"))
PARAMS = [pytest.param(p, id=p.stem) for p in SUMMARIES]
TOPS = {p.name for p in ROOT.iterdir()}


def commands(text: str) -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line.strip()]


def missing(text: str) -> list[str]:
    """Paths in backticks that begin with a folder or file of the project and are not there."""
    named = [word for word in re.findall(r"`([^`\s]+)`", text) if word.split("/")[0] in TOPS and "*" not in word]
    return [word for word in named if not (ROOT / word).exists()]


@pytest.mark.parametrize("path", PARAMS)
def test_files_that_are_named_exist(path: Path) -> None:
    assert missing(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", PARAMS)
def test_commands_that_are_named_exist(path: Path) -> None:
    """Options of ``apex`` are tried by test_snippets, which reads these pages too."""
    found = commands(path.read_text(encoding="utf-8"))
    assert found, "a summary names the command that measures again"
    for program, *arguments in found:
        if program == "pytest":
            assert [a for a in arguments if not a.startswith("-") and not (ROOT / a.split("::")[0]).exists()] == []
        elif program == "make":
            targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            assert set(arguments) <= set(targets)
        elif program == "bash":
            assert (ROOT / arguments[0]).exists()
        elif program == "python" and arguments[0] == "-m":
            assert importlib.util.find_spec(arguments[1]) is not None
        else:
            assert program == "apex", f"{program} is not a command of the project"


@pytest.mark.parametrize("path", PARAMS)
def test_a_summary_is_short_and_complete(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Where", "Command", "Measured", "Deviations"]


def test_every_summary_is_listed() -> None:
    listed = (ROOT / "docs" / "evidence" / "README.md").read_text(encoding="utf-8")
    assert [p.name for p in SUMMARIES if p.relative_to(ROOT / "docs" / "evidence").as_posix() not in listed] == []
