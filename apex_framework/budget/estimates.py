"""What a call may cost at most: the prompt by the backend's own tokenizer, and its whole allowance of output."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import BackendError
from ..interfaces.llm import LLMBackend, LLMRequest


@dataclass(frozen=True, slots=True)
class Estimate:
    """Tokens that a call may take. Only the prompt's part is an estimate; ``max_tokens`` is a bound."""

    prompt_tokens: int
    max_tokens: int

    @property
    def total(self) -> int:
        """Both together, without any margin."""
        return self.prompt_tokens + self.max_tokens


def count(backend: LLMBackend, text: str) -> int:
    """Tokens of a text by the backend's tokenizer. Raises BackendError when it fails or answers nonsense."""
    try:
        tokens = backend.count_tokens(text)
    except BackendError:
        raise
    except Exception as error:  # a plugin's edge: a broken tokenizer is a failed backend
        raise BackendError(f"count_tokens failed: {type(error).__name__}: {error}") from error
    if type(tokens) is not int or tokens < 0:
        raise BackendError(f"count_tokens answered {tokens!r}")
    return tokens


def estimate(backend: LLMBackend, request: LLMRequest) -> Estimate:
    """Estimate of one request. Raises BackendError when the backend cannot count."""
    return Estimate(count(backend, request.system + request.prompt), request.max_tokens)
