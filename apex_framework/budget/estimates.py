"""What a call may cost at most: the prompt by the backend's own tokenizer, its whole allowance of output, its time."""

from __future__ import annotations

import math
from collections import deque
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


class Durations:
    """How long a call may take: the 95th percentile of a model's last calls, times ``safety``.

    Nearest rank over the last ``window`` calls of the same backend and model. Until there are ``least`` of them, the
    bound that is asked with, e.g. the call's deadline, is the estimate; and it always is the most. All in milliseconds.
    """

    def __init__(self, *, safety: float = 1.2, window: int = 100, least: int = 5) -> None:
        self._safety, self._window, self._least = safety, window, least
        self._seen: dict[tuple[str, str], deque[int]] = {}

    def observe(self, backend: str, model: str, ms: int) -> None:
        """A call took so long."""
        self._seen.setdefault((backend, model), deque(maxlen=self._window)).append(max(0, ms))

    def estimate(self, backend: str, model: str, bound: int) -> int:
        """Milliseconds to reserve for the next call."""
        seen = self._seen.get((backend, model), ())
        if len(seen) < self._least:
            return bound
        p95 = sorted(seen)[math.ceil(0.95 * len(seen)) - 1]
        return min(bound, math.ceil(p95 * self._safety))
