"""Repositories to try things on: an honest one, and those of an attacker."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from hostile import Evil, make_honest


@pytest.fixture(scope="session", autouse=True)
def git_program() -> None:
    """All of this needs git."""
    if shutil.which("git") is None:
        pytest.skip("there is no git program")


@pytest.fixture(scope="session")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of three commits, a branch, tags, made by plain git; not to be changed."""
    return make_honest(tmp_path_factory.mktemp("honest") / "repo")


@pytest.fixture
def evil(honest: Path, tmp_path: Path) -> Callable[[], Evil]:
    """Makes an attacker's place."""
    return lambda: Evil.at(tmp_path, honest)
