"""The backends for servers keep the contract, against real servers on loopback that keep to their protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from apex_framework.interfaces import LLMBackend
from apex_framework.testing.llm import check_llm_backend
from apex_framework.testing.servers import LoopbackServer, OllamaServer, OpenAIServer
from apex_llm import plugin

pytest.importorskip("aiohttp", reason="the extra [http] is not installed")
pytest.importorskip("ollama", reason="the extra [ollama] is not installed")

SERVERS: dict[str, Callable[[], LoopbackServer]] = {
    "openai": OpenAIServer,
    "vllm": lambda: OpenAIServer(vllm=True),
    "llama_server": lambda: OpenAIServer(llama=True),
    "ollama": OllamaServer,
}


@pytest.fixture(params=SERVERS)
def make(request: pytest.FixtureRequest) -> Iterator[Callable[..., LLMBackend]]:
    factories = {}
    plugin.apex_llm_backends(lambda name, factory, **_: factories.setdefault(name, factory))
    with SERVERS[request.param]() as server:
        yield lambda **options: factories[request.param](spec="tiny", base_url=server.url, **options)
        assert server.broken_off <= 12


def test_it_passes_the_kit(make: Callable[..., LLMBackend]) -> None:
    check_llm_backend(lambda: make(bytes_per_token=3.0))


def test_it_passes_the_kit_without_a_pool(make: Callable[..., LLMBackend]) -> None:
    check_llm_backend(lambda: make(bytes_per_token=3.0, pooling=False))
