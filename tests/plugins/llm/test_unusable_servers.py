"""``apex run`` with a server that cannot be used ends at once: one line, one remedy, status 2 or 3, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from apex_framework.cli.boundary import run
from apex_framework.testing.servers import FaultServer, OllamaServer, OpenAIServer

pytest.importorskip("aiohttp", reason="the extra [http] is not installed")
pytest.importorskip("ollama", reason="the extra [ollama] is not installed")


def attempt(backend: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    status = run(["run", "--backend", backend, "--episodes", "1", "--real-time"])
    assert not Path("runs").exists(), "something was written"
    return status, capsys.readouterr().err.strip().splitlines()


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("APEX_OPENAI_BASE_URL", "OPENAI_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("refused", "Connection refused"),
        ("unauthorized", "401"),
        ("server_error", "500"),
        ("wrong_url", "404"),
        ("wrong_type", "no JSON"),
        ("redirects", "redirects"),
    ],
)
def test_a_server_that_cannot_be_used(
    what: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultServer(what) as server:
        monkeypatch.setenv("APEX_OPENAI_BASE_URL", server.url)
        status, lines = attempt("openai:tiny", capsys)
    assert status == 3 and len(lines) == 2, lines
    assert lines[0].startswith("error[E0331]: backend openai:tiny: ") and words in lines[0]
    assert "nothing was run" in lines[1]


@pytest.mark.parametrize(("variable", "name"), [("APEX_OPENAI_BASE_URL", "openai"), ("OLLAMA_HOST", "ollama")])
def test_a_model_that_the_server_lacks(
    variable: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with OllamaServer() if name == "ollama" else OpenAIServer() as server:
        monkeypatch.setenv(variable, server.url)
        status, lines = attempt(f"coder={name}:qwen2.5-coder:7b,*=repair", capsys)
    assert status == 3 and "qwen2.5-coder:7b" in lines[0] and len(lines) == 2, lines


@pytest.mark.parametrize(
    ("address", "backend", "words"),
    [
        ("", "openai:tiny", "has no address"),
        ("http://127.0.0.1:1", "openai", "needs a model"),
        ("http://127.0.0.1:1", "ollama", "needs a model"),
        ("127.0.0.1:1", "openai:tiny", "is no address"),
        ("http://me:secret@127.0.0.1:1", "openai:tiny", "a user or a password"),
    ],
)
def test_settings_that_cannot_work(
    address: str, backend: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if address:
        monkeypatch.setenv("APEX_OPENAI_BASE_URL", address)
    status, lines = attempt(backend, capsys)
    assert status == 2 and len(lines) == 2 and words in lines[0], lines
    assert "secret" not in "".join(lines)


def test_the_bench_of_pooling_measures_both() -> None:
    from types import SimpleNamespace

    from apex_framework.benches import pooling

    rows = list(pooling.run(SimpleNamespace(n=3, pooling="on,off")))
    assert {row["contender"] for row in rows} >= {"pool", "no pool"}
    assert all(row["value"] > 0 for row in rows if row["metric"] != "saving p50")
    assert {row["case"] for row in rows} == set(pooling.SETTINGS)
