"""vLLM in a worker process."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from apex_framework.errors import Failure
from apex_framework.workers import Answered, Ask, EngineError

from .prompts import load_prompts

_BROKEN = "\ufffd"


class VLLMEngine:
    """One model on one or several graphics cards, through vLLM's synchronous engine: one call at a time.

    vLLM gets tokens, not text, so that what was counted is what it computes. Between two of its steps a call can be ended.
    """

    def __init__(self) -> None:
        self._calls = 0

    def load(self, options: Mapping[str, Any], *, tokenizer_only: bool) -> Mapping[str, Any]:
        """Options: path, context, tensor_parallel_size, gpu_memory_utilization. Raises EngineError when vLLM refuses."""
        self._context = int(options["context"])
        path = options["path"]
        try:
            self._prompts = load_prompts(path, tokenizer_only=tokenizer_only)
            if not tokenizer_only:
                self._load_model(path, options)
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            remedy = "see whether vLLM knows this architecture, and whether the graphics cards have memory for it"
            cause = " ".join(f"vLLM cannot load {path}: {error}".split())[:300]
            raise EngineError(cause, remedy, Failure.NOT_FOUND) from error
        return {"version": f"vllm {importlib.metadata.version('vllm')}", "pid": os.getpid()}

    def _load_model(self, path: str, options: Mapping[str, Any]) -> None:
        import vllm

        self._vllm = vllm
        arguments = vllm.EngineArgs(
            model=path,
            max_model_len=self._context,
            tensor_parallel_size=options["tensor_parallel_size"],
            gpu_memory_utilization=options["gpu_memory_utilization"],
            max_num_seqs=1,
            seed=0,
            load_format="safetensors",
            enable_prefix_caching=False,  # an answer would depend on what was asked before: not the same bit for bit
            trust_remote_code=False,
            disable_log_stats=True,
        )
        self._engine = vllm.LLMEngine.from_engine_args(arguments)

    def count(self, text: str) -> int:
        """Tokens of a bare text."""
        return self._prompts.count(text)

    def count_prompt(self, system: str, prompt: str) -> int:
        """Tokens of both in the model's own chat template, if it has one."""
        return len(self._prompts.tokens(system, prompt))

    def generate(self, ask: Ask, stopped: Callable[[], bool]) -> Iterator[str | Answered]:
        """Pieces of text, then vLLM's own counts. Raises EngineError for a prompt that leaves no room."""
        tokens = self._prompts.tokens(ask.system, ask.prompt)
        room = self._context - len(tokens)
        if room < 1:
            cause = f"the prompt has {len(tokens):,} tokens, and the context {self._context:,}"
            raise EngineError(cause, "give the option context, or a smaller budget", Failure.CONTEXT_EXCEEDED)
        self._calls += 1
        call, made, reason = f"{self._calls}", 0, ""
        prompt = self._vllm.TokensPrompt(prompt_token_ids=tokens)
        self._engine.add_request(call, prompt, self._sampling(ask, min(ask.max_tokens, room)))
        try:
            while not reason:
                if stopped():
                    return
                for output in self._step():
                    if output.request_id == call:
                        piece = output.outputs[0]
                        made += len(piece.token_ids)
                        reason = (piece.finish_reason or "none given") if output.finished else ""
                        # What is no UTF-8 is left out: so written it would count more tokens than the model was allowed.
                        yield piece.text.replace(_BROKEN, "")
        finally:
            if not reason:
                self._engine.abort_request([call])
        if reason not in ("stop", "length"):
            raise EngineError(f"vLLM ended the answer, its reason: {reason}", kind=Failure.INCOMPLETE)
        yield Answered(len(tokens), made, reason == "length")

    def _sampling(self, ask: Ask, limit: int) -> Any:
        from vllm.sampling_params import RequestOutputKind

        return self._vllm.SamplingParams(
            temperature=ask.temperature,
            top_p=ask.top_p,
            seed=ask.seed,
            max_tokens=limit,
            stop=list(ask.stop),
            output_kind=RequestOutputKind.DELTA,
        )

    def _step(self) -> Any:
        try:
            return self._engine.step()
        except Exception as error:  # noqa: BLE001 - whatever it is, an engine whose step failed is not sound any more
            print(" ".join(f"vLLM failed: {type(error).__name__}: {error}".split())[:400], file=sys.stderr, flush=True)
            os._exit(1)  # and is made anew for the next call
