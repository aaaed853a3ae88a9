"""The stage of the episode tests, and a few tasks of the bundled suite in a cache that is shared between runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "kernel" / "episode")]

from ears import Ears  # noqa: E402 - importable only now
from stage import Stage  # noqa: E402 - importable only now


@pytest.fixture(scope="session")
def ears() -> Iterator[Stage]:
    """The tiny suite, with backends that write down or shorten what the solver is asked."""
    made = Stage(ears=Ears())
    yield made
    made.close()


@pytest.fixture(scope="session")
def mini() -> Iterator[Stage]:
    """Eight tasks of mini/dev."""
    made = Stage(suite="mini", limit=8, ears=Ears())
    yield made
    made.close()
