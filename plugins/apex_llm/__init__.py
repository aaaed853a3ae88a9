"""Model backends: servers over HTTP, a script, a cassette of recorded answers, and a hostile model with its team."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import LLMBackend, Team


def _scripted(**options: Any) -> LLMBackend:
    from apex_framework.testing.scripted import ScriptedBackend

    return ScriptedBackend(**options)


def _evil(**options: Any) -> LLMBackend:
    from apex_framework.testing.evil_llm import EvilBackend

    return EvilBackend(**options)


def _obedient(**options: Any) -> Team:
    from apex_framework.testing.obedient import ObedientTeam

    return ObedientTeam(**options)


def _replay(spec: str = "", **options: Any) -> LLMBackend:
    """``replay:PATH`` is the cassette at PATH."""
    from .replay import ReplayBackend

    return ReplayBackend(**{"path": spec, **options} if spec else options)


def _openai(**options: Any) -> LLMBackend:
    from .openai import OpenAIBackend

    return OpenAIBackend(**options)


def _vllm(**options: Any) -> LLMBackend:
    from .vllm import VLLMBackend

    return VLLMBackend(**options)


def _llama_server(**options: Any) -> LLMBackend:
    from .llama_server import LlamaServerBackend

    return LlamaServerBackend(**options)


def _ollama(**options: Any) -> LLMBackend:
    from .ollama import OllamaBackend

    return OllamaBackend(**options)


class Plugin(ApexSpec):
    """What this package brings."""

    @hookimpl
    def apex_llm_backends(self, add: Add[LLMBackend]) -> None:
        add("scripted", _scripted, summary="answers from a text, a list or a function")
        add("evil_llm", _evil, summary="a hostile model (evil_llm:SEED) that answers with the attack catalogue")
        add("replay", _replay, summary="answers from a cassette (replay:PATH); records them from another backend")
        add("openai", _openai, summary="a server that speaks the OpenAI API (openai:MODEL)", requires="http")
        add("vllm", _vllm, summary="vLLM's server (vllm:MODEL)", requires="http")
        add("llama_server", _llama_server, summary="llama.cpp's server (llama-server)", requires="http")
        add("ollama", _ollama, summary="an Ollama server, by its own API (ollama:MODEL)", requires="ollama")

    @hookimpl
    def apex_teams(self, add: Add[Team]) -> None:
        add("obedient", _obedient, summary="for tests: agents that do exactly what the model says")


plugin = Plugin()
