"""The vllm_engine backend: vLLM in worker processes, its settings, and the graphics cards that each gets."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import os
from pathlib import Path
from typing import Final

from apex_framework.errors import ConfigError, MissingExtraError, ModelError
from apex_framework.interfaces import ModelIdentity
from apex_framework.workers import FleetSettings, ModelInfo, WorkerBackend, instances_from

from .backend import context_of, graphics_cards
from .examine import FolderBackend
from .folder import find_folder

MODEL: Final = "APEX_VLLM_MODEL"
CARDS: Final = "APEX_VLLM_TENSOR_PARALLEL_SIZE"
SHARE: Final = "APEX_VLLM_GPU_MEMORY_UTILIZATION"

QUIET: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in the worker itself: scheduled the same each time, and it ends with it
}
"""Variables of each process: nothing is fetched and nothing reported."""


def vllm_backend(
    spec: str = "",
    *,
    model: str | Path = "",
    instances: int | None = None,
    context: int | None = None,
    tensor_parallel_size: int | None = None,
    gpu_memory_utilization: float | None = None,
    load_s: float = 1800.0,
    grace_s: float = 10.0,
) -> WorkerBackend:
    """A backend for the model ``spec`` or ``model``, else that of APEX_VLLM_MODEL; nothing is loaded yet.

    It is a folder, or a model that lies in the local cache of the Hub: nothing is downloaded, and no code of the model's is
    run. Each of ``instances`` processes has ``tensor_parallel_size`` graphics cards of its own (else
    APEX_VLLM_TENSOR_PARALLEL_SIZE, else 1) and takes ``gpu_memory_utilization`` of their memory (else
    APEX_VLLM_GPU_MEMORY_UTILIZATION, else 0.9). By default there are APEX_NUM_LLM_INSTANCES, else as many as the cards
    suffice for. Raises ModelError, ConfigError, MissingExtraError.
    """
    for module in ("vllm", "transformers"):
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError("llm_backend 'vllm_engine'", "vllm", module)
    named = str(spec or model or os.environ.get(MODEL, ""))
    if not named:
        raise ModelError("vllm_engine needs a model", f"set {MODEL}, or name it: vllm_engine:FOLDER")
    folder = find_folder(named)
    cards = graphics_cards(os.environ)
    each = _cards_each(tensor_parallel_size)
    share = _share(gpu_memory_utilization)
    count = instances_from(instances, max(1, len(cards) // each))
    if cards and count * each > len(cards):
        cause = f"{count} instances with {each} graphics cards each need {count * each}, and there are {len(cards)}"
        raise ConfigError(cause, f"set APEX_NUM_LLM_INSTANCES or {CARDS} to less")
    tokens = context_of(folder, context)
    options = {
        "path": str(folder.path),
        "context": tokens,
        "tensor_parallel_size": each,
        "gpu_memory_utilization": share,
    }
    groups = [",".join(cards[n * each : (n + 1) * each]) for n in range(count)] if cards else []
    environ = tuple({**QUIET, "CUDA_VISIBLE_DEVICES": group} for group in groups) or (QUIET,)
    engine = "apex_cuda.vllm_engine:VLLMEngine"
    settings = FleetSettings(engine, options, count, environ, load_s=load_s, grace_s=grace_s)

    def identify() -> ModelIdentity:
        digest, words = folder.digests()
        server = f"vllm {importlib.metadata.version('vllm')}"
        return ModelIdentity(folder.model_id, digest, words, tokens, folder.dtype, server)

    info = ModelInfo(folder.model_id, tokens, "vllm_engine", identify)
    return FolderBackend(info, settings, folder, cards, folder.dtype, folder.size * count)


def _cards_each(option: int | None) -> int:
    named = os.environ.get(CARDS, "") or "1" if option is None else option
    try:
        number = int(named) if isinstance(named, str) else named
    except ValueError:
        number = 0
    if type(number) is not int or number < 1:
        raise ConfigError(
            f"{CARDS} (option tensor_parallel_size) must be an integer >= 1, not {named!r}", "by default it is 1"
        )
    return number


def _share(option: float | None) -> float:
    named = os.environ.get(SHARE, "") or "0.9" if option is None else option
    try:
        share = float(named)
    except (TypeError, ValueError):
        share = math.nan
    if not 0 < share <= 1:
        raise ConfigError(
            f"{SHARE} (option gpu_memory_utilization) must be above 0 and at most 1, not {named!r}",
            "by default it is 0.9",
        )
    return share
