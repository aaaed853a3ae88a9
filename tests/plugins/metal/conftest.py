"""A GGUF model made on the spot, and the reason why llama.cpp is not there, said aloud."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from apex_framework.testing.gguf import write_tiny_gguf

WHY = "needs the extra [metal]: no llama_cpp (run .ci/models PYTHON, then tox -e models)"


@pytest.fixture(scope="session")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a llama of two layers with random weights."""
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny(gguf: Path) -> Path:
    """The same, for tests that load it. Skips, aloud, where llama-cpp-python is not installed."""
    if importlib.util.find_spec("llama_cpp") is None:
        pytest.skip(WHY)
    return gguf
