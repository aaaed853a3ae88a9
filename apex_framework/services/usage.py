"""What a call is charged: the backend's own counts, unless they cannot be true."""

from __future__ import annotations

from dataclasses import dataclass

from ..budget.estimates import count
from ..interfaces.llm import LLMBackend, LLMResult, LLMStatus


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens charged, in and out."""

    tokens_in: int
    tokens_out: int


def _true(tokens: object, text: bool) -> bool:
    """Whether a reported count can be true: an integer >= 0, and not 0 for something."""
    return type(tokens) is int and (tokens > 0 or (tokens == 0 and not text))


def usage(backend: LLMBackend, result: LLMResult, prompt_tokens: int, max_tokens: int) -> Usage:
    """Counts to settle with.

    The prompt: as reported; as counted before the call when the report is missing, negative or no integer.
    The answer: as reported; the larger of reported and counted when the report is missing, negative or no integer,
    or when either exceeds ``max_tokens``. A result that says timeout or cancelled and has no count is charged in full.
    Raises BackendError when the answer cannot be counted.
    """
    tokens_in = result.tokens_in if _true(result.tokens_in, prompt_tokens > 0) else prompt_tokens
    counted = count(backend, result.text) if result.text else 0
    if result.status in (LLMStatus.TIMEOUT, LLMStatus.CANCELLED) and not _true(result.tokens_out, True):
        return Usage(tokens_in, max(counted, max_tokens))
    reported = result.tokens_out if type(result.tokens_out) is int else 0
    if not _true(result.tokens_out, bool(result.text)) or max(reported, counted) > max_tokens:
        return Usage(tokens_in, max(reported, counted))
    return Usage(tokens_in, reported)
