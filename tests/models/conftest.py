"""Models made on the spot and a real server; each fixture skips, aloud, where its library is not installed."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "models"), str(TESTS / "plugins" / "cuda")]

from made_model import MISSING, WHY, make_model  # noqa: E402 - tests/plugins/cuda/made_model.py

from apex_framework.testing.gguf import write_tiny_gguf  # noqa: E402 - after the path


def needs(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module} (run .ci/models PYTHON, then tox -e models)")


@pytest.fixture(scope="session")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GGUF file that llama.cpp can load here."""
    needs("llama_cpp")
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def transformers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that transformers can load here."""
    if MISSING:
        pytest.skip(WHY)
    return make_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def server(gguf: Path) -> Iterator[str]:
    """The address of llama.cpp's real OpenAI-compatible server, on loopback, with the model ``tiny``."""
    needs("uvicorn", "fastapi", "aiohttp")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--port", f"{port}", "--n_ctx", "8192", "--n_threads", "1", "--n_threads_batch", "1"]
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(gguf), "--model_alias", "tiny", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 60
            while not _listening(port):
                assert process.poll() is None and time.monotonic() < until, "the server does not start"
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
