"""The llama_cpp backend: a GGUF file, its settings, and the worker processes that it needs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from pathlib import Path
from typing import Final

from apex_framework.errors import ConfigError, MissingExtraError, ModelError
from apex_framework.interfaces import ModelIdentity
from apex_framework.workers import (
    FleetSettings,
    ModelInfo,
    WorkerBackend,
    available_memory,
    file_digest,
    instances_from,
)

from .examine import LlamaCppBackend
from .gguf import Head, read_head

CONTEXT: Final = 8192
"""Tokens of context by default, where the model was trained for so many."""
BATCH: Final = 512


def llama_cpp_backend(
    spec: str = "",
    *,
    path: str | Path = "",
    instances: int | None = None,
    context: int | None = None,
    threads: int | None = None,
    batch: int = BATCH,
    gpu_layers: int = -1,
    check_memory: bool = True,
    load_s: float = 600.0,
    grace_s: float = 2.0,
) -> WorkerBackend:
    """A backend for the GGUF file ``spec`` or ``path``, else that of APEX_GGUF_MODEL_PATH; nothing is loaded yet.

    ``instances`` processes (else APEX_NUM_LLM_INSTANCES, else 1) share the file's pages; each has a context of its own of
    ``context`` tokens (by default the model's, at most 8192) and ``threads`` threads (by default half the processors,
    shared by the instances: more threads than free processors are far slower). ``gpu_layers`` on the graphics card where
    llama.cpp was built for one, -1 for all. With ``check_memory`` a model that does not fit is refused before it is loaded.
    Raises ModelError, ConfigError, MissingExtraError.
    """
    if importlib.util.find_spec("llama_cpp") is None:
        raise MissingExtraError("llm_backend 'llama_cpp'", "metal", "llama_cpp")
    named = str(spec or path or os.environ.get("APEX_GGUF_MODEL_PATH", ""))
    if not named:
        raise ModelError("llama_cpp needs a model file", "set APEX_GGUF_MODEL_PATH, or name it: llama_cpp:PATH")
    head = read_head(Path(named).expanduser().absolute())
    count = instances_from(instances)
    tokens = _context(head, context)
    if type(batch) is not int or batch < 1:
        raise ConfigError(f"batch must be an integer >= 1, not {batch!r}")
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options = {
        "path": str(head.path),
        "context": tokens,
        "batch": min(batch, tokens),
        "threads": threads or max(1, cpus // (2 * count)),
        "gpu_layers": gpu_layers,
    }
    settings = FleetSettings("apex_metal.engine:LlamaEngine", options, count, load_s=load_s, grace_s=grace_s)

    def check() -> None:
        if check_memory:
            refuse_too_large(head, tokens, min(batch, tokens), count)

    def identify() -> ModelIdentity:
        return _identity(head, tokens)

    need = memory_needed(head, tokens, min(batch, tokens), count)
    info = ModelInfo(head.path.stem, tokens, "llama_cpp", identify, check, need)
    return LlamaCppBackend(info, settings, head, need)


def memory_needed(head: Head, context: int, batch: int, instances: int) -> int:
    """Bytes, estimated: the file once, and per instance its keys and values, and room to compute.

    That room is the scores of a batch over the vocabulary and a few of its hidden states in single precision.
    """
    width = head.values.get(f"{head.architecture}.embedding_length", 0)
    compute = 4 * batch * (head.tokens + 8 * int(width)) + (48 << 20)
    return head.size + instances * (head.kv_bytes(context) + compute)


def refuse_too_large(head: Head, context: int, batch: int, instances: int) -> None:
    """Raises ModelError when this machine has too little memory left now; where it does not tell, nothing is refused."""
    need, have = memory_needed(head, context, batch, instances), available_memory()
    if have is not None and need > have:
        cause = f"{head.path.name} needs about {need / 1e9:.1f} GB with {instances} x {context:,} tokens of context"
        remedy = "take a smaller quantisation, less context or fewer instances"
        raise ModelError(f"{cause}, and {have / 1e9:.1f} GB are free", remedy)


def _context(head: Head, asked: int | None) -> int:
    trained = head.trained_context
    if asked is None:
        return min(CONTEXT, trained) if trained else CONTEXT
    if type(asked) is not int or asked < 1:
        raise ConfigError(f"context must be an integer >= 1, not {asked!r}")
    if trained and asked > trained:
        raise ConfigError(f"context {asked:,} is more than the {trained:,} that {head.path.name} was trained for")
    return asked


def _identity(head: Head, context: int) -> ModelIdentity:
    return ModelIdentity(
        head.path.stem,
        file_digest(head.path),
        head.tokenizer_digest,
        context,
        head.quantisation,
        f"llama-cpp-python {importlib.metadata.version('llama-cpp-python')}",
    )
