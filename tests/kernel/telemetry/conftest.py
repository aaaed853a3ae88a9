"""The stage of the episodes' tests, and the pieces of the runtime's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
for room in ("episode", "runtime", "experiment", "telemetry"):
    sys.path.append(str(HERE.parent / room))


@pytest.fixture(scope="session")
def stage() -> Iterator[Any]:
    from stage import Stage

    made = Stage()
    yield made
    made.close()
