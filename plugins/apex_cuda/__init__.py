"""Models of the Hugging Face kind in processes of their own: by transformers (CUDA or any processor), or by vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import LLMBackend


def _hf(**options: Any) -> LLMBackend:
    """``hf:MODEL`` is a folder or a model of the local cache; without one it is that of APEX_HF_MODEL_ID."""
    from .backend import hf_backend

    return hf_backend(**options)


def _vllm_engine(**options: Any) -> LLMBackend:
    """``vllm_engine:MODEL`` is a folder or a model of the local cache; without one it is that of APEX_VLLM_MODEL."""
    from .vllm_backend import vllm_backend

    return vllm_backend(**options)


class Plugin(ApexSpec):
    """What this package brings."""

    @hookimpl
    def apex_llm_backends(self, add: Add[LLMBackend]) -> None:
        add("hf", _hf, summary="a transformers model in worker processes (hf:MODEL)", requires="cuda")
        add("hf_cuda", _hf, summary="another name of hf", requires="cuda")
        add("vllm_engine", _vllm_engine, summary="vLLM in worker processes (vllm_engine:MODEL)", requires="vllm")


plugin = Plugin()
