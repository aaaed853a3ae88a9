"""``apex doctor --backend``: what is wrong with a server is told apart, one line each, with what to do; keys never shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apex_framework.cli.boundary import run
from apex_framework.testing.servers import FaultServer, LoopbackServer, Model, OllamaServer, OpenAIServer

pytest.importorskip("aiohttp", reason="the extra [http] is not installed")
pytest.importorskip("ollama", reason="the extra [ollama] is not installed")

KEY = "sk-abcdefghijklmnopqrstuvwxyz"
VARIABLES = {
    "openai": "APEX_OPENAI_BASE_URL",
    "vllm": "VLLM_BASE_URL",
    "llama_server": "LLAMA_SERVER_BASE_URL",
    "ollama": "OLLAMA_HOST",
}
Found = dict[str, tuple[str, str, str]]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in (*VARIABLES.values(), "OPENAI_BASE_URL", "APEX_OPENAI_API_KEY", "OPENAI_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def examined(backend: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Found]:
    status = run(["doctor", "--backend", backend, "--json", *more])
    out, err = capsys.readouterr()
    assert KEY not in out + err and "Traceback" not in err
    return status, {r["what"]: (r["status"], r["found"], r["remedy"]) for r in json.loads(out)}


def ask(
    server: LoopbackServer,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *more: str,
) -> tuple[int, Found]:
    with server:
        monkeypatch.setenv(VARIABLES[backend.partition(":")[0]], server.url)
        return examined(backend, capsys, *more)


@pytest.mark.parametrize(
    ("server", "backend", "version"),
    [
        (OpenAIServer, "openai:tiny", ""),
        (lambda model: OpenAIServer(model, vllm=True), "vllm:tiny", "vllm 0.0.0"),
        (lambda model: OpenAIServer(model, llama=True), "llama_server", "llama.cpp"),
        (OllamaServer, "ollama:tiny", "ollama 0.0.0"),
    ],
)
def test_a_server_that_is_well(
    server: type[OpenAIServer],
    backend: str,
    version: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, found = ask(server(Model(context_tokens=16_384)), backend, monkeypatch, capsys, "--call")
    assert status == 0 and list(found) == ["server", "key", "model", "context", "call"]
    assert {grade for grade, *_ in found.values()} == {"ok"} and version in found["server"][1]
    assert "first token after" in found["call"][1]


@pytest.mark.parametrize(
    ("fault", "what", "words", "remedy"),
    [
        ("refused", "server", "Connection refused", "start the server"),
        ("wrong_url", "server", "404", "address"),
        ("redirects", "server", "redirects", "give the address"),
        ("wrong_type", "server", "no JSON", "address"),
        ("server_error", "server", "500", "log"),
        ("unauthorized", "key", "401", "set APEX_OPENAI_API_KEY"),
        ("forbidden", "key", "403", "set APEX_OPENAI_API_KEY"),
    ],
)
def test_what_is_wrong_is_told_apart(
    fault: str,
    what: str,
    words: str,
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, found = ask(FaultServer(fault), "openai:tiny", monkeypatch, capsys, "--call")
    assert status == 3 and list(found)[-1] == what, "it stops where a run would"
    assert found[what][0] == "fail" and words in found[what][1] and remedy in found[what][2]


@pytest.mark.parametrize("backend", ["openai:other", "vllm:other", "ollama:other"])
def test_a_model_that_is_not_there(
    backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = OllamaServer() if backend.startswith("ollama") else OpenAIServer(vllm=True)
    status, found = ask(server, backend, monkeypatch, capsys)
    assert status == 3 and found["server"][0] == "ok" and found["model"][0] == "fail"
    assert "other" in found["model"][1] and backend.partition(":")[0] in found["model"][2]


@pytest.mark.parametrize("backend", ["ollama:tiny", "llama_server"])
def test_another_kind_of_server(
    backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = ask(OpenAIServer(), backend, monkeypatch, capsys)
    assert status == 3 and list(found) == ["server"] and "this kind of server" in found["server"][2]


def test_a_key_is_accepted_or_refused_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("APEX_OPENAI_API_KEY", KEY)
    _, found = ask(OpenAIServer(api_key=KEY), "openai:tiny", monkeypatch, capsys)
    assert found["key"][:2] == ("ok", "accepted")
    status, found = ask(OpenAIServer(api_key="another"), "openai:tiny", monkeypatch, capsys)
    assert status == 3 and found["key"][0] == "fail" and found["key"][2] == "correct APEX_OPENAI_API_KEY"


@pytest.mark.parametrize(
    ("context", "budget", "grade"),
    [(16_384, 10_000, "ok"), (4_096, 10_000, "warn"), (8_192, 100_000, "warn"), (512, 10_000, "fail")],
)
def test_the_context_against_the_budget(
    context: int, budget: int, grade: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = OpenAIServer(Model(context_tokens=context), vllm=True)
    status, found = ask(server, "vllm:tiny", monkeypatch, capsys, "--budget", str(budget))
    assert found["context"][0] == grade and status == (3 if grade == "fail" else 0)
    assert bool(found["context"][2]) == (grade != "ok")


def test_settings_that_cannot_work_and_cassettes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "junk.jsonl").write_text("junk\n")
    (tmp_path / "empty.jsonl").write_text(
        '{"cassette":1,"context_tokens":8192,"is_llm":true,"model_id":"m"}\n', encoding="utf-8"
    )
    for backend, words in (
        ("openai:tiny", "has no address"),
        ("ollama", "needs a model"),
        ("replay", "needs a cassette"),
        ("replay:nothing.jsonl", "no cassette at"),
        ("replay:junk.jsonl", "is no cassette"),
        ("replay:empty.jsonl", "0 answers"),
        (f"replay:{tmp_path}", "directory"),
    ):
        status, found = examined(backend, capsys)
        ((grade, said, remedy),) = found.values()
        assert status == 3 and grade == "fail" and words in said and remedy, (backend, found)
