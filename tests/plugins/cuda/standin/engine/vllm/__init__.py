"""Stands in for vLLM, which no test here can install: the few names that ``apex_cuda.vllm_engine`` uses.

Written from vLLM's public documentation (LLMEngine, EngineArgs, SamplingParams, RequestOutput). It takes no argument that the
documentation does not name, and misbehaves for prompts that say so. What it proves about vLLM itself is nothing.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import transformers

from .sampling_params import RequestOutputKind, SamplingParams

__version__ = "0.0.0"


@dataclass
class EngineArgs:
    model: str
    max_model_len: int | None = None
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float = 0.9
    max_num_seqs: int | None = None
    seed: int = 0
    load_format: str = "auto"
    enable_prefix_caching: bool | None = None
    trust_remote_code: bool = False
    disable_log_stats: bool = False


def TokensPrompt(*, prompt_token_ids: list[int]) -> dict[str, list[int]]:
    return {"prompt_token_ids": prompt_token_ids}


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: Sequence[int]
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass
class RequestOutput:
    request_id: str
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool


class _Request:
    def __init__(self, tokens: list[int], params: SamplingParams, text: str) -> None:
        self.tokens, self.params, self.prompt = tokens, params, text
        seed = params.seed if params.temperature > 0 else 0
        self.chance = random.Random(f"{tokens}/{seed}")
        self.made: list[int] = []
        self.told = 0


class LLMEngine:
    """One token for each request in every step."""

    @classmethod
    def from_engine_args(cls, engine_args: EngineArgs) -> LLMEngine:
        return cls(engine_args)

    def __init__(self, args: EngineArgs) -> None:
        assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0" and os.environ["VLLM_NO_USAGE_STATS"] == "1"
        assert args.max_num_seqs == 1 and args.load_format == "safetensors" and not args.enable_prefix_caching
        if args.gpu_memory_utilization == 0.123:
            raise ValueError("Free memory on device is less than desired GPU memory utilization.\nReduce it.")
        self._args = args
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
        vocabulary = self._tokenizer.get_vocab()
        self._words = sorted(id for token, id in vocabulary.items() if token.isascii() and token.isalpha())
        self._requests: dict[str, _Request] = {}

    def add_request(self, request_id: str, prompt: dict[str, list[int]], params: SamplingParams) -> str:
        tokens = prompt["prompt_token_ids"]
        if self._requests:
            raise RuntimeError("more than max_num_seqs: a request before was neither ended nor aborted")
        assert params.output_kind is RequestOutputKind.DELTA and self._args.max_model_len
        if len(tokens) + (params.max_tokens or 0) > self._args.max_model_len:
            raise ValueError("longer than max_model_len")
        self._requests[request_id] = _Request(tokens, params, self._tokenizer.decode(tokens))
        return request_id

    def abort_request(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            self._requests.pop(request_id, None)

    def has_unfinished_requests(self) -> bool:
        return bool(self._requests)

    def step(self) -> list[RequestOutput]:
        time.sleep(0.001)
        return [self._next(request_id, request) for request_id, request in list(self._requests.items())]

    def _next(self, request_id: str, request: _Request) -> RequestOutput:
        if "fail in a step" in request.prompt and len(request.made) == 3:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        request.made.append(request.chance.choice(self._words))
        text, reason, limit = self._tokenizer.decode(request.made), None, request.params.max_tokens
        if len(request.made) == limit:
            reason = "length"
        if "end it" in request.prompt and len(request.made) == 5:
            reason = "abort"
        for stop in request.params.stop or ():
            if stop in text:
                text, reason = text[: text.index(stop)], "stop"
        # Text that might begin a stop sequence is held back, as vLLM does.
        held = 0 if reason else max((len(stop) - 1 for stop in request.params.stop or ()), default=0)
        delta = text[request.told : max(request.told, len(text) - held)]
        request.told += len(delta)
        if reason:
            del self._requests[request_id]
        piece = CompletionOutput(0, delta, request.made[-1:], reason)
        return RequestOutput(request_id, request.tokens, [piece], reason is not None)
