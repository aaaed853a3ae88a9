"""Ollama cuts long prompts without a word; this backend asks for room, and notices what was cut."""

from __future__ import annotations

import asyncio

import pytest

from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import LLMRequest
from apex_framework.testing.servers import Model, OllamaServer

pytest.importorskip("ollama", reason="the extra [ollama] is not installed")

WORDS = "alpha beta gamma delta "


def backend(server: OllamaServer, **options):
    from apex_llm.ollama import OllamaBackend

    return OllamaBackend("tiny", base_url=server.url, **options)


def ask(model, request: LLMRequest, *, streamed: bool = False):
    async def work():
        try:
            if not streamed:
                return await model.generate(request)
            return [chunk async for chunk in model.stream(request)][-1].result
        finally:
            await model.close()

    return asyncio.run(work())


def test_it_asks_for_its_context_and_how_long_to_stay_loaded() -> None:
    with OllamaServer() as server:
        ask(backend(server, num_ctx=3000, keep_alive="30s"), LLMRequest("hello", 8, system="be brief", seed=5))
        data = server.requests[0].json()
    assert data["options"] == {"num_ctx": 3000, "num_predict": 8, "temperature": 0.0, "top_p": 1.0, "seed": 5}
    assert (data["keep_alive"], data["stream"], [m["role"] for m in data["messages"]]) == (
        "30s",
        False,
        ["system", "user"],
    )


def test_the_context_follows_the_variable_that_the_server_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_CONTEXT_LENGTH", "2048")
    with OllamaServer() as server:
        assert backend(server).capabilities.context_tokens == 2048
        assert backend(server, num_ctx=512).capabilities.context_tokens == 512


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("words", "num_ctx", "cap"),
    [
        pytest.param(400, 2048, 0, id="fills what was asked for"),
        pytest.param(400, 4096, 2048, id="fills what the server gave"),
        pytest.param(2000, 8192, 2048, id="a small part was read"),
    ],
)
def test_a_prompt_that_the_server_cut_is_an_error(words: int, num_ctx: int, cap: int, streamed: bool) -> None:
    """Each prompt has 7 2/3 test tokens a word of four; all are longer than the context that there is."""
    with OllamaServer(Model(context_tokens=8192), cap=cap) as server, pytest.raises(BackendError) as caught:
        ask(backend(server, num_ctx=num_ctx, bytes_per_token=3.0), LLMRequest(WORDS * words, 8), streamed=streamed)
    assert caught.value.kind is Failure.CONTEXT_TRUNCATED
    assert caught.value.partial and not caught.value.retryable
    assert "num_ctx" in caught.value.remedy


@pytest.mark.parametrize("words", [1, 10, 100, 250])
def test_a_prompt_that_fits_is_none(words: int) -> None:
    with OllamaServer() as server:
        result = ask(backend(server, num_ctx=4096), LLMRequest(WORDS * words, 8))
    assert result.tokens_in == -(-len(WORDS * words) // 3)


def test_warming_loads_the_model_and_sees_its_context() -> None:
    async def work(model) -> None:
        await model.warm()
        assert model._loaded_ctx == 1024
        await model.close()

    with OllamaServer(cap=1024) as server:
        asyncio.run(work(backend(server)))
        assert server.loaded_ctx == 1024


def test_a_missing_model_says_so() -> None:
    with OllamaServer(Model("other")) as server, pytest.raises(BackendError, match="'tiny' not found") as caught:
        ask(backend(server), LLMRequest("hello", 8))
    assert caught.value.kind is Failure.NOT_FOUND
