"""The hf backend: a transformers model, its settings, and the worker processes that it needs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from apex_framework.errors import ConfigError, MissingExtraError, ModelError
from apex_framework.interfaces import ModelIdentity
from apex_framework.workers import FleetSettings, ModelInfo, WorkerBackend, available_memory, instances_from

from .examine import FolderBackend
from .folder import Folder, find_folder

CONTEXT: Final = 8192
"""Tokens of context by default, where the model was made for so many."""
QUANTISATIONS: Final = ("", "4bit")
_HALF: Final = frozenset({"bfloat16", "float16"})


def hf_backend(
    spec: str = "",
    *,
    model: str | Path = "",
    instances: int | None = None,
    context: int | None = None,
    threads: int | None = None,
    quantisation: str = "",
    check_memory: bool = True,
    load_s: float = 900.0,
    grace_s: float = 2.0,
) -> WorkerBackend:
    """A backend for the model ``spec`` or ``model``, else that of APEX_HF_MODEL_ID; nothing is loaded yet.

    It is a folder, or a model that lies in the local cache of the Hub: nothing is downloaded, and no code of the model's is
    run. ``instances`` processes: by default APEX_NUM_LLM_INSTANCES, else one per graphics card (see CUDA_VISIBLE_DEVICES),
    else 1; each has a copy of the weights, on CUDA in bfloat16 (``quantisation="4bit"``: nf4), otherwise in float32.
    Raises ModelError, ConfigError, MissingExtraError.
    """
    for module in ("torch", "transformers"):
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError("llm_backend 'hf'", "cuda", module)
    if quantisation not in QUANTISATIONS:
        raise ConfigError(f"quantisation must be one of {QUANTISATIONS}, not {quantisation!r}")
    if quantisation and importlib.util.find_spec("bitsandbytes") is None:
        raise MissingExtraError("quantisation '4bit'", "cuda", "bitsandbytes")
    named = str(spec or model or os.environ.get("APEX_HF_MODEL_ID", ""))
    if not named:
        raise ModelError("hf needs a model", "set APEX_HF_MODEL_ID, or name it: hf:FOLDER")
    folder = find_folder(named)
    cards = graphics_cards(os.environ)
    count = instances_from(instances, max(1, len(cards)))
    tokens = context_of(folder, context)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options = {
        "path": str(folder.path),
        "context": tokens,
        "threads": threads or max(1, cpus // (2 * count)),
        "quantisation": quantisation,
        "size": folder.size,
    }
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environ = tuple({**offline, "CUDA_VISIBLE_DEVICES": card} for card in cards) or (offline,)
    engine = "apex_cuda.engine:TransformersEngine"
    settings = FleetSettings(engine, options, count, environ, load_s=load_s, grace_s=grace_s)

    def check() -> None:
        if check_memory and not cards:
            refuse_too_large(folder, count)

    kind = quantisation or ("bfloat16" if cards else "float32")

    def identify() -> ModelIdentity:
        digest, words = folder.digests()
        server = f"transformers {importlib.metadata.version('transformers')}"
        return ModelIdentity(folder.model_id, digest, words, tokens, kind, server)

    need = 0 if cards else memory_needed(folder, count)
    model_info = ModelInfo(folder.model_id, tokens, "hf", identify, check, need)
    return FolderBackend(model_info, settings, folder, cards, kind, memory_needed(folder, count))


def graphics_cards(environ: Mapping[str, str], devices: Path = Path("/dev")) -> tuple[str, ...]:
    """The cards that processes may use, as CUDA names them; none where there is no driver."""
    present = sorted(int(m[1]) for p in devices.glob("nvidia*") if (m := re.fullmatch(r"nvidia(\d+)", p.name)))
    if not present:
        return ()
    if (named := environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return tuple(card.strip() for card in named.split(",") if card.strip() and card.strip() != "-1")
    return tuple(str(n) for n in range(len(present)))


def memory_needed(folder: Folder, instances: int) -> int:
    """Bytes of the weights in float32, one copy each."""
    return folder.size * (2 if folder.dtype in _HALF else 1) * instances


def refuse_too_large(folder: Folder, instances: int) -> None:
    """Raises ModelError when this machine has too little memory left now for the weights."""
    need = memory_needed(folder, instances)
    have = available_memory()
    if have is not None and need > have:
        cause = f"{folder.model_id} needs about {need / 1e9:.1f} GB in {instances} instances, and {have / 1e9:.1f} GB are free"
        raise ModelError(cause, "take a smaller model or fewer instances, or a quantised GGUF file with llama_cpp")


def context_of(folder: Folder, asked: int | None) -> int:
    """Tokens of context: those asked for, else the model's, at most CONTEXT. Raises ConfigError."""
    made = folder.context
    if asked is None:
        return min(CONTEXT, made) if made else CONTEXT
    if type(asked) is not int or asked < 1:
        raise ConfigError(f"context must be an integer >= 1, not {asked!r}")
    if made and asked > made:
        raise ConfigError(f"context {asked:,} is more than the {made:,} that {folder.model_id} was made for")
    return asked
