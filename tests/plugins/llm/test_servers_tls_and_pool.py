"""Connections are kept, counted and closed; certificates are verified; what servers say of themselves is read."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import ChecksHealth, CountsTokens, Identifies, LLMRequest, Streams, Warms
from apex_framework.testing.servers import FaultServer, Model, OllamaServer, OpenAIServer
from apex_framework.testing.servers.model import tokens

pytest.importorskip("aiohttp", reason="the extra [http] is not installed")
pytest.importorskip("ollama", reason="the extra [ollama] is not installed")
trustme = pytest.importorskip("trustme")

REQUEST = LLMRequest("Name the days.", 48)


def make(name: str, url: str, **options):
    from apex_llm.llama_server import LlamaServerBackend
    from apex_llm.ollama import OllamaBackend
    from apex_llm.openai import OpenAIBackend
    from apex_llm.vllm import VLLMBackend

    kinds = {"openai": OpenAIBackend, "vllm": VLLMBackend, "llama_server": LlamaServerBackend, "ollama": OllamaBackend}
    return kinds[name]("tiny", base_url=url, **options)


def server(name: str, model: Model | None = None, **options):
    if name == "ollama":
        return OllamaServer(model, **options)
    return OpenAIServer(model, vllm=name == "vllm", llama=name == "llama_server", **options)


NAMES = ["openai", "vllm", "llama_server", "ollama"]
BOTH = ["openai", "ollama"]


async def stream(model) -> str:
    return "".join([chunk.text async for chunk in model.stream(REQUEST)])


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("pooling", [True, False])
def test_a_pool_keeps_connections_and_counts_them(name: str, pooling: bool) -> None:
    async def work(model) -> None:
        for _ in range(3):
            await model.generate(REQUEST)
            await stream(model)
        await model.close()

    with server(name) as running:
        model = make(name, running.url, pooling=pooling)
        asyncio.run(work(model))
        numbers = model.pool_numbers()
        assert running.connections == numbers["pool_conn_opened"] == (1 if pooling else 6)
        assert (numbers["pool_acquires"], numbers["pool_conn_in_use"]) == (6, 0)
        assert numbers["pool_acquire_ms_sum"] > 0


@pytest.mark.parametrize("name", BOTH)
def test_no_more_connections_are_open_than_allowed(name: str) -> None:
    async def work(model) -> None:
        await asyncio.gather(*(model.generate(REQUEST) for _ in range(12)))
        assert model.pool_numbers()["pool_conn_in_use"] == 0
        await model.close()

    with server(name, Model(pause_s=0.001)) as running:
        asyncio.run(work(make(name, running.url, max_connections=3)))
        assert running.connections <= 3


def test_backends_may_share_a_pool() -> None:
    from apex_llm.network import PooledHTTPClient

    async def work(url: str) -> None:
        pool = PooledHTTPClient(max_connections=4)
        first, second = make("openai", url, pool=pool), make("openai", url, pool=pool)
        await first.generate(REQUEST)
        await first.close()
        await second.generate(REQUEST)
        status, body = await pool.post(f"{url}/v1/nothing", {"x": 1}, timeout=5.0)
        assert status == 404 and body
        await pool.close()

    with server("openai") as running:
        asyncio.run(work(running.url))
        assert running.connections == 1


@pytest.mark.parametrize("name", BOTH)
def test_one_backend_serves_one_loop_after_another_and_leaves_no_socket_to_any(name: str) -> None:
    """Workers keep a backend between episodes, each of which has a loop of its own."""
    with server(name) as running:
        model = make(name, running.url)
        for _ in range(3):
            assert asyncio.run(model.generate(REQUEST)).text
        asyncio.run(model.close())
        assert running.connections == 3


@pytest.mark.parametrize("name", BOTH)
def test_f32_a_cancelled_call_is_broken_off_at_the_server(name: str) -> None:
    async def work(model, running) -> None:
        for streamed in (False, True):
            call = asyncio.create_task(stream(model) if streamed else model.generate(REQUEST))
            while len(running.requests) < 1 + streamed:  # noqa: ASYNC110 - the server is in another thread
                await asyncio.sleep(0.005)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await model.close()
        assert model.pool_numbers()["pool_conn_in_use"] == 0

    with server(name, Model(pause_s=0.5)) as running:
        asyncio.run(asyncio.wait_for(work(make(name, running.url), running), 10))
        while running.open:
            asyncio.run(asyncio.sleep(0.005))
        assert running.broken_off == 2


@pytest.mark.parametrize("name", BOTH)
def test_a_stream_that_is_closed_early_is_broken_off(name: str) -> None:
    async def work(model) -> None:
        answer = model.stream(REQUEST)
        assert (await anext(answer)).text
        await answer.aclose()
        assert model.pool_numbers()["pool_conn_in_use"] == 0
        await model.close()

    with server(name, Model(pause_s=0.05)) as running:
        asyncio.run(work(make(name, running.url)))


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def tls(authority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.mark.parametrize("name", NAMES)
def test_certificates_are_verified(name: str, authority, tls: ssl.SSLContext, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(file)

    async def work(url: str) -> None:
        trusting = make(name, url, ca_file=str(file))
        assert (await trusting.generate(REQUEST)).text and await stream(trusting)
        await trusting.close()
        for model in (make(name, url), make(name, url.replace("localhost", "127.0.0.1"), ca_file=str(file))):
            with pytest.raises(BackendError) as caught:
                await model.generate(REQUEST)
            assert caught.value.kind is Failure.CONNECT and not caught.value.retryable
            assert "certificate" in str(caught.value)
            await model.close()

    with server(name, tls=tls) as running:
        asyncio.run(work(running.url))


@pytest.mark.parametrize("name", NAMES)
def test_what_a_server_is_can_be_asked(name: str) -> None:
    async def work(url: str) -> None:
        model = make(name, url)
        assert isinstance(model, Streams) and isinstance(model, Warms)
        assert isinstance(model, ChecksHealth) and isinstance(model, Identifies)
        await model.warm()
        health = await model.health()
        assert health.ok, health
        identity = await model.identity()
        assert identity.model_id and "\n" not in identity.server
        if name != "openai":
            assert identity.context_tokens == 4096 and identity.server
            assert health.version
        if name == "ollama":
            assert identity.model_digest.startswith("sha256:") and identity.quantisation == "F32"
        await model.close()

    with server(name) as running:
        asyncio.run(work(running.url))


@pytest.mark.parametrize("name", ["vllm", "llama_server"])
def test_the_server_counts(name: str) -> None:
    texts = ["", "a", "def f(x): return x", "漢字 " * 10]

    async def work(url: str) -> None:
        model = make(name, url)
        assert isinstance(model, CountsTokens)
        assert list(await model.count_batch(texts)) == [len(tokens(t)) for t in texts]
        await model.close()

    with server(name) as running:
        asyncio.run(work(running.url))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", ["refused", "unauthorized", "server_error", "wrong_type", "silent"])
def test_an_unwell_server_is_told_not_raised(name: str, what: str) -> None:
    async def work(url: str) -> None:
        model = make(name, url, total_s=0.2)
        health = await model.health()
        assert not health.ok and health.detail
        await model.close()

    with FaultServer(what) as running:
        asyncio.run(work(running.url))


def test_a_model_that_the_server_lacks_is_told_by_its_health() -> None:
    async def work(name: str, url: str) -> str:
        model = make(name, url)
        health = await model.health()
        await model.close()
        return "" if health.ok else health.detail

    for name in ("openai", "vllm", "ollama"):
        with server(name, Model("other")) as running:
            assert "tiny" in asyncio.run(work(name, running.url))
