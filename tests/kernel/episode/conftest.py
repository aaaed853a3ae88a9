"""One stage for all tests of episodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stage import Stage


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.close()
