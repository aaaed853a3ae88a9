"""A transformers model in a worker process."""

from __future__ import annotations

import importlib.metadata
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from apex_framework.errors import Failure
from apex_framework.workers import Answered, Ask, EngineError, StopCutter

from .prompts import load_prompts

CHUNK: Final = 512
"""Tokens of a prompt that are computed between two looks at a cancellation."""
_BROKEN: Final = "\ufffd"


class TransformersEngine:
    """One model on one device; every answer begins with an empty cache."""

    def __init__(self) -> None:
        self._device = ""

    def load(self, options: Mapping[str, Any], *, tokenizer_only: bool) -> Mapping[str, Any]:
        """Options: path, context, threads, quantisation, size. Raises EngineError when transformers refuses the model."""
        self._context = int(options["context"])
        path = options["path"]
        try:
            self._prompts = load_prompts(path, tokenizer_only=tokenizer_only)
            if not tokenizer_only:
                self._load_model(path, options)
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            cause = " ".join(f"transformers cannot load {path}: {error}".split())[:300]
            raise EngineError(cause, "see whether transformers knows this architecture", Failure.NOT_FOUND) from error
        version = importlib.metadata.version("transformers")
        return {"version": f"transformers {version}", "pid": os.getpid(), "device": self._device}

    def _load_model(self, path: str, options: Mapping[str, Any]) -> None:
        import torch
        import transformers

        self._torch = torch
        torch.set_num_threads(max(1, int(options["threads"])))
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        settings: dict[str, Any] = {"device_map": {"": 0}} if self._device == "cuda" else {}
        dtype = torch.bfloat16 if self._device == "cuda" else torch.float32
        settings["dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"] = dtype
        if options["quantisation"] == "4bit":
            settings["quantization_config"] = transformers.BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
            )
        elif self._device == "cuda":
            _refuse_too_large(torch, int(options["size"]))
        self._model = transformers.AutoModelForCausalLM.from_pretrained(
            path, local_files_only=True, use_safetensors=True, trust_remote_code=False, **settings
        )
        self._model.eval()
        ends = self._model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        self._ends = {int(n) for n in (*ends, self._prompts.tokenizer.eos_token_id) if n is not None}
        # The scores of a whole prompt over a large vocabulary are gigabytes that nobody reads.
        last = "logits_to_keep" in inspect.signature(self._model.forward).parameters
        self._last_only = {"logits_to_keep": 1} if last else {}

    def count(self, text: str) -> int:
        """Tokens of a bare text."""
        return self._prompts.count(text)

    def count_prompt(self, system: str, prompt: str) -> int:
        """Tokens of both in the model's own chat template, if it has one."""
        return len(self._prompts.tokens(system, prompt))

    def generate(self, ask: Ask, stopped: Callable[[], bool]) -> Iterator[str | Answered]:
        """Pieces of text, then the counts. Raises EngineError for a prompt that leaves no room."""
        torch = self._torch
        tokens = self._prompts.tokens(ask.system, ask.prompt)
        room = self._context - len(tokens)
        if room < 1:
            cause = f"the prompt has {len(tokens):,} tokens, and the context {self._context:,}"
            raise EngineError(cause, "give the option context, or a smaller budget", Failure.CONTEXT_EXCEEDED)
        limit = min(ask.max_tokens, room)
        chance = torch.Generator(device=self._device).manual_seed(ask.seed)
        words, cutter = _Words(self._prompts.tokenizer), StopCutter(ask.stop)
        made, cut = 0, False
        past: Any = None
        try:
            ids = torch.tensor([tokens], device=self._device)
            for begin in range(0, len(tokens), CHUNK):
                if stopped():
                    return
                scores, past = self._step(ids[:, begin : begin + CHUNK], past)
            while True:
                token = self._choose(scores, ask, chance)
                if token in self._ends:
                    break
                made += 1
                yield cutter.feed(words.add(token))
                if cutter.stopped:
                    break
                if made >= limit:
                    cut = True
                    break
                if stopped():
                    return
                scores, past = self._step(torch.tensor([[token]], device=self._device), past)
        except torch.cuda.OutOfMemoryError as error:
            past = None
            torch.cuda.empty_cache()
            raise EngineError("the graphics card has no memory left", "give less context", Failure.SERVER) from error
        yield cutter.rest()
        yield Answered(len(tokens), made, cut)

    def _step(self, ids: Any, past: Any) -> tuple[Any, Any]:
        with self._torch.inference_mode():
            out = self._model(input_ids=ids, past_key_values=past, use_cache=True, **self._last_only)
        return out.logits[0, -1].float(), out.past_key_values

    def _choose(self, scores: Any, ask: Ask, chance: Any) -> int:
        if ask.temperature <= 0:
            return int(scores.argmax())
        shares, order = self._torch.softmax(scores / ask.temperature, dim=-1).sort(descending=True)
        before = shares.cumsum(dim=-1) - shares
        shares[before >= ask.top_p] = 0.0  # the first token always stays
        return int(order[self._torch.multinomial(shares, 1, generator=chance)])


class _Words:
    """Tokens to text, piece by piece: what a character is made of waits for its last part.

    What is no UTF-8 is left out: written as U+FFFD it would count more tokens than the model was allowed.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[int] = []
        self._shown = self._read = 0

    def add(self, token: int) -> str:
        self._tokens.append(token)
        before = self._text(self._tokens[self._shown : self._read])
        after = self._text(self._tokens[self._shown :])
        if after.endswith(_BROKEN) and len(self._tokens) - self._read < 5:
            return ""
        self._shown, self._read = self._read, len(self._tokens)
        return after[len(before) :].replace(_BROKEN, "")

    def _text(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def _refuse_too_large(torch: Any, size: int) -> None:
    free, _ = torch.cuda.mem_get_info()
    if size > free:
        cause = f"the weights have {size / 1e9:.1f} GB, and the graphics card {free / 1e9:.1f} GB free"
        raise EngineError(cause, "take quantisation='4bit' or a smaller model", Failure.NOT_FOUND)
