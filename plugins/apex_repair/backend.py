"""The backend: a prompt in, an answer in the section grammar out. It is not an LLM."""

from __future__ import annotations

import hashlib
import warnings
from random import Random

from apex_framework.errors import BackendError
from apex_framework.interfaces import LLMCapabilities, LLMRequest, LLMResult, LLMStatus
from apex_framework.interfaces.prompting import GrammarError, parse_prompt

from .answers import Answer, answer
from .confinement import confined
from .tokenizer import load_tokenizer

MODEL_ID = "apex_repair-1"
CONTEXT_TOKENS = 16_384
MS_PER_CALL = 200.0
MS_PER_TOKEN_OUT = 12.0
MS_PER_TOKEN_IN = 0.2


def latency_ms(tokens_in: int, tokens_out: int) -> float:
    """Declared duration of a call: that of a small model on a workstation, not a measurement."""
    return MS_PER_CALL + MS_PER_TOKEN_OUT * tokens_out + MS_PER_TOKEN_IN * tokens_in


class RepairBackend:
    """Answers from its prompt and seed alone; temperature, top_p and system text change nothing."""

    def __init__(self, *, context_tokens: int = CONTEXT_TOKENS) -> None:
        self._tokenizer = load_tokenizer()
        self._capabilities = LLMCapabilities(MODEL_ID, context_tokens, deterministic=True, is_llm=False)

    @property
    def capabilities(self) -> LLMCapabilities:
        return self._capabilities

    def count_tokens(self, text: str) -> int:
        return self._tokenizer.count(text)

    async def generate(self, request: LLMRequest) -> LLMResult:
        """Raises BackendError for a prompt beyond the context, ConfinementError if the solver leaves its prompt."""
        tokens_in = self.count_tokens(request.system) + self.count_tokens(request.prompt)
        if tokens_in > self._capabilities.context_tokens:
            raise BackendError(
                f"a prompt of {tokens_in:,} tokens exceeds the context of {self._capabilities.context_tokens:,}",
                "show fewer functions or less history",
            )
        text, status = self._fit(think(request.prompt, request.seed), request)
        tokens_out = self.count_tokens(text)
        return LLMResult(text, tokens_in, tokens_out, status, latency_ms=latency_ms(tokens_in, tokens_out))

    async def close(self) -> None:
        """Nothing is held."""

    def _fit(self, parts: Answer, request: LLMRequest) -> tuple[str, LLMStatus]:
        """As many whole parts as max_tokens holds; of a first part that is too long, its beginning."""
        for size in range(len(parts), 0, -1):
            text = _until("\n".join(parts[:size]), request.stop)
            if self.count_tokens(text) <= request.max_tokens:
                return text, LLMStatus.OK
        tokens = self._tokenizer.encode(_until("\n".join(parts[:1]), request.stop))
        size = max(0, request.max_tokens)
        text = self._tokenizer.decode(tokens[:size])
        while size and self.count_tokens(text) > request.max_tokens:  # a cut piece may be read as other tokens
            size -= 1
            text = self._tokenizer.decode(tokens[:size])
        return text, LLMStatus.LENGTH


def think(prompt: str, seed: int) -> Answer:
    """The whole answer to a prompt, confined to it."""
    digest = hashlib.sha256(f"{seed}\n".encode() + prompt.encode("utf-8", "surrogatepass")).digest()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the shown source may hold what the compiler warns of
        with confined():
            try:
                return answer(parse_prompt(prompt), Random(int.from_bytes(digest)))
            except (GrammarError, ValueError, RecursionError) as error:
                return (f"I could not read the prompt: {error}",)


def _until(text: str, stops: tuple[str, ...]) -> str:
    """The text before the first of some stop strings."""
    return text[: min((at for stop in stops if stop and (at := text.find(stop)) >= 0), default=len(text))]
