"""Makes the backends of this folder importable, and closes them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def closed_at_the_end() -> Iterator[None]:
    """Whatever a test makes is closed, however it ends."""
    from worker_backends import MADE

    yield
    while MADE:
        asyncio.run(MADE.pop().close())
