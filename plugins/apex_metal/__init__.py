"""GGUF models in processes of their own, by llama.cpp: Metal where there is one, any processor otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import LLMBackend


def _llama_cpp(**options: Any) -> LLMBackend:
    """``llama_cpp:PATH`` is the GGUF file at PATH; without one it is that of APEX_GGUF_MODEL_PATH."""
    from .backend import llama_cpp_backend

    return llama_cpp_backend(**options)


class Plugin(ApexSpec):
    """What this package brings."""

    @hookimpl
    def apex_llm_backends(self, add: Add[LLMBackend]) -> None:
        add("llama_cpp", _llama_cpp, summary="a GGUF model in worker processes (llama_cpp:PATH)", requires="metal")
        add("llama_cpp_metal", _llama_cpp, summary="another name of llama_cpp", requires="metal")


plugin = Plugin()
