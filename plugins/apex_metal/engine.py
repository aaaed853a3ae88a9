"""llama.cpp in a worker process."""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from apex_framework.errors import Failure
from apex_framework.workers import Answered, Ask, EngineError, StopCutter


class LlamaEngine:
    """One model and one context; the context is cleared before each answer."""

    def load(self, options: Mapping[str, Any], *, tokenizer_only: bool) -> Mapping[str, Any]:
        """Options: path, context, batch, threads, gpu_layers. Raises EngineError when llama.cpp refuses the file."""
        import llama_cpp

        self._lib = llama_cpp
        self._batch = int(options["batch"])
        try:
            self._llm = llama_cpp.Llama(
                model_path=options["path"],
                vocab_only=tokenizer_only,
                n_ctx=options["context"],
                n_batch=self._batch,
                n_ubatch=self._batch,
                n_threads=options["threads"],
                n_threads_batch=options["threads"],
                n_gpu_layers=options["gpu_layers"],
                use_mmap=True,
                verbose=True,  # why a file is refused is said on stderr and nowhere else
            )
        except ValueError as error:
            remedy = "see whether llama-cpp-python is new enough for this model, and whether there is memory for it"
            raise EngineError(f"llama.cpp cannot load {options['path']}", remedy, Failure.NOT_FOUND) from error
        self._be_silent()
        self._context = int(options["context"])
        self._vocab = self._llm._model.vocab
        self._template = self._chat_template()
        device = "gpu" if llama_cpp.llama_supports_gpu_offload() and options["gpu_layers"] else "cpu"
        return {"version": f"llama-cpp-python {llama_cpp.__version__}", "device": device, "pid": os.getpid()}

    def count(self, text: str) -> int:
        """Tokens of a bare text; what looks like a control token in it is text."""
        return len(self._llm.tokenize(text.encode(), add_bos=False, special=False)) if text else 0

    def count_prompt(self, system: str, prompt: str) -> int:
        """Tokens of both in the file's own chat template, if it has one."""
        return len(self._prompt(system, prompt))

    def generate(self, ask: Ask, stopped: Callable[[], bool]) -> Iterator[str | Answered]:
        """Pieces of text, then the counts. Raises EngineError for a prompt that leaves no room."""
        tokens = self._prompt(ask.system, ask.prompt)
        room = self._context - len(tokens)
        if room < 1:
            cause = f"the prompt has {len(tokens):,} tokens, and the context {self._context:,}"
            raise EngineError(cause, "give the option context, or a smaller budget", Failure.CONTEXT_EXCEEDED)
        limit = min(ask.max_tokens, room)
        # Without it an answer would depend on what was asked before: a kept beginning is not computed bit for bit the same.
        self._llm.reset()
        for begin in range(0, len(tokens) - 1, self._batch):
            if stopped():
                return
            self._llm.eval(tokens[begin : min(begin + self._batch, len(tokens) - 1)])
        self._llm.set_seed(ask.seed)
        # What is no UTF-8 is left out: written as U+FFFD it would count more tokens than the model was allowed.
        decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        cutter = StopCutter(ask.stop)
        made, cut = 0, False
        sampling = {"temp": ask.temperature, "top_p": ask.top_p, "top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0}
        for token in self._llm.generate(tokens, **sampling):
            if self._lib.llama_vocab_is_eog(self._vocab, token):
                break
            made += 1
            yield cutter.feed(decoder.decode(self._piece(token)))
            if cutter.stopped:
                break
            if made >= limit:
                cut = True
                break
            if stopped():
                return
        yield cutter.rest()
        yield Answered(len(tokens), made, cut)

    def _piece(self, token: int) -> bytes:
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            written = int(self._lib.llama_token_to_piece(self._vocab, token, buffer, size, 0, False))
            if written >= 0:
                return buffer.raw[:written]
            size = -written

    def _prompt(self, system: str, prompt: str) -> list[int]:
        if self._template is None:
            text = f"{system}\n\n{prompt}" if system else prompt
            return list(self._llm.tokenize(text.encode(), add_bos=True, special=False))
        text = self._rendered(system, prompt)
        tokens = list(self._llm.tokenize(text.encode(), add_bos=False, special=True))
        bos = self._llm.token_bos()
        twice = tokens[:1] == [bos]  # many templates write it themselves
        return [bos, *tokens] if self._lib.llama_vocab_get_add_bos(self._vocab) and not twice else tokens

    def _rendered(self, system: str, prompt: str) -> str:
        assert self._template is not None
        user = {"role": "user", "content": prompt}
        if system:
            with contextlib.suppress(Exception):  # some templates refuse a system message: it then opens the user's
                return self._template([{"role": "system", "content": system}, user])
            user = {"role": "user", "content": f"{system}\n\n{prompt}"}
        return self._template([user])

    def _chat_template(self) -> Callable[[list[dict[str, str]]], str] | None:
        source = self._llm.metadata.get("tokenizer.chat_template")
        if not source:
            return None
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        def text_of(token: int) -> str:
            return self._llm._model.token_get_text(token) if token >= 0 else ""

        eos, bos = text_of(self._llm.token_eos()), text_of(self._llm.token_bos())
        formatter = Jinja2ChatFormatter(template=source, eos_token=eos, bos_token=bos)
        return lambda messages: str(formatter(messages=messages).prompt)

    def _be_silent(self) -> None:
        silent = self._lib.llama_log_callback(lambda level, text, data: None)
        self._lib.llama_log_set(silent, ctypes.c_void_p(0))
        self._silent = silent  # llama.cpp keeps only its address
        self._llm.verbose = False
