"""Addresses and options are checked at once; a key comes from the environment, goes to one server, and is never shown."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import traceback

import pytest

from apex_framework.errors import BackendError, ConfigError, Failure
from apex_framework.interfaces import LLMRequest
from apex_framework.testing.servers import FaultServer, LoopbackServer, OllamaServer, OpenAIServer, Request, Wire
from apex_llm.settings import Address, Key

pytest.importorskip("aiohttp", reason="the extra [http] is not installed")
pytest.importorskip("ollama", reason="the extra [ollama] is not installed")

SECRET = "canary-7f3a9c51d2"
VARIABLES = [
    *(
        "APEX_OPENAI_BASE_URL",
        "OPENAI_BASE_URL",
        "APEX_OPENAI_API_KEY",
        "OPENAI_API_KEY",
        "VLLM_BASE_URL",
        "VLLM_API_KEY",
    ),
    *("LLAMA_SERVER_BASE_URL", "LLAMA_API_KEY", "OLLAMA_HOST", "OLLAMA_API_KEY", "OLLAMA_CONTEXT_LENGTH"),
]


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def openai(**options):
    from apex_llm.openai import OpenAIBackend

    return OpenAIBackend("tiny", **options)


def ask(model, request: LLMRequest | None = None):
    async def work():
        try:
            return await model.generate(request or LLMRequest("hello", 8))
        finally:
            await model.close()

    return asyncio.run(work())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:8000",
        "ftp://host",
        "http://",
        "http://:8000",
        "http://host:notaport",
        "http://host:0",
        "http://host:99999",
        "http://user:pw@host",
        "http://host?x=1",
        "http://host#x",
        "http://ho st",
        "http://[::1",
        "file:///etc/passwd",
    ],
)
def test_what_is_no_address_is_refused_at_once(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Address.parse(text, what="base_url")
    assert caught.value.remedy and "pw" not in str(caught.value)


@pytest.mark.parametrize("text", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_v1_is_added_once(text: str) -> None:
    assert Address.parse(text, what="x").v1() == "http://h:1/v1"
    assert Address.parse(text, what="x").root() == "http://h:1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "http://127.0.0.1:11434"),
        ("box", "http://box:11434"),
        ("box:1", "http://box:1"),
        (":1", "http://127.0.0.1:1"),
        ("http://box:1/", "http://box:1"),
        ("https://box/path", "https://box/path"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:1", "http://[::1]:1"),
    ],
)
def test_ollama_host_has_its_short_forms(text: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_llm.ollama import address

    monkeypatch.setenv("OLLAMA_HOST", text)
    assert address("").url == expected


@pytest.mark.parametrize(
    "options",
    [
        {"total_s": 0},
        {"idle_s": float("nan")},
        {"connect_s": float("inf")},
        {"first_token_s": True},
        {"max_bytes": 0},
        {"context_tokens": -1},
        {"max_connections": 1.5},
        {"api": "assistants"},
        {"bytes_per_token": 0},
        {"ca_file": "/nowhere/ca.pem"},
    ],
)
def test_impossible_options_are_refused_at_once(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        openai(base_url="http://127.0.0.1:1", **options)


def test_without_an_address_or_a_model_the_remedy_says_how() -> None:
    from apex_llm.ollama import OllamaBackend
    from apex_llm.openai import OpenAIBackend

    with pytest.raises(ConfigError, match="no address") as caught:
        openai()
    assert "APEX_OPENAI_BASE_URL" in caught.value.remedy
    for backend in (OpenAIBackend, OllamaBackend):
        with pytest.raises(ConfigError, match="needs a model"):
            backend()


class Echo(LoopbackServer):
    """Refuses every key, and repeats it."""

    async def answer(self, request: Request, wire: Wire) -> None:
        said = f"Incorrect key: {request.headers.get('authorization')}"
        await wire.reply(401, {"error": {"message": said}})


def test_a_key_is_sent_and_appears_nowhere(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("APEX_OPENAI_API_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    with Echo() as server:
        model = openai(base_url=server.url)
        with pytest.raises(BackendError) as caught:
            ask(model)
        assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    error = caught.value
    assert error.kind is Failure.AUTH
    shown = [str(error), error.remedy, repr(error), repr(model), repr(vars(model)), caplog.text]
    shown += ["".join(traceback.format_exception(error)), repr(server.requests[0])]
    assert [text for text in shown if SECRET in text] == []
    with pytest.raises(TypeError):
        pickle.dumps(Key(SECRET))
    with pytest.raises(TypeError):
        copy.copy(Key(SECRET))


def test_openai_s_own_key_goes_only_where_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with OpenAIServer() as server:
        ask(openai(base_url=server.url))
        monkeypatch.setenv("APEX_OPENAI_BASE_URL", server.url)
        ask(openai())
        monkeypatch.delenv("APEX_OPENAI_BASE_URL")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        ask(openai())
        sent = ["authorization" in request.headers for request in server.requests]
    assert sent == [False, False, True]


@pytest.mark.parametrize("value", ["a\nb", "a\r\nX-Evil: 1", "schlüssel"])
def test_a_key_that_is_no_header_is_refused_without_showing_it(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APEX_OPENAI_API_KEY", value)
    with pytest.raises(ConfigError) as caught:
        openai(base_url="http://127.0.0.1:1")
    assert "APEX_OPENAI_API_KEY" in str(caught.value) and value not in str(caught.value)


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from apex_llm.ollama import OllamaBackend

    with FaultServer("refused") as nobody, OpenAIServer() as server, OllamaServer() as other:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, nobody.url)
        assert ask(openai(base_url=server.url)).text
        assert ask(OllamaBackend("tiny", base_url=other.url)).text


def test_a_proxy_that_is_asked_for_is_used() -> None:
    from apex_llm.ollama import OllamaBackend

    with FaultServer("server_error") as proxy:
        for model in (
            openai(base_url="http://192.0.2.1:9", proxy=proxy.url),
            OllamaBackend("tiny", base_url="http://192.0.2.1:9", proxy=proxy.url),
        ):
            with pytest.raises(BackendError) as caught:
                ask(model)
            assert caught.value.kind is Failure.SERVER
        assert len(proxy.requests) == 2


def test_a_request_says_what_was_asked() -> None:
    request = LLMRequest("the prompt", 8, system="the system", seed=2**40 + 3, stop=("END",), temperature=0.0)
    with OpenAIServer() as server:
        ask(openai(base_url=server.url), request)
        ask(openai(base_url=server.url, api="completions"), request)
        chat, plain = (r.json() for r in server.requests)
    assert [m["content"] for m in chat["messages"]] == ["the system", "the prompt"]
    assert plain["prompt"] == "the systemthe prompt"
    for data in (chat, plain):
        assert (data["max_tokens"], data["temperature"], data["top_p"], data["stop"]) == (8, 0.0, 1.0, ["END"])
        assert 0 <= data["seed"] < 2**31
