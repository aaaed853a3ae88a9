"""A transformers model for the tests, and the reason why there is none, said aloud."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from made_model import MISSING, WHY, make_model


@pytest.fixture(scope="session")
def tiny_transformers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a Llama of two layers. Skips, aloud, where transformers is not installed."""
    if MISSING:
        pytest.skip(WHY)
    return make_model(tmp_path_factory.mktemp("models") / "tiny")
