"""What a call is charged: the backend's own counts, unless they cannot be true."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..interfaces.budget import MOST_TOKENS
from ..interfaces.llm import LLMResult, LLMStatus

Count = Callable[[str], int]

TOLERANCE: Final = 0.1
"""Share by which a report may be below our own count, for the count is of text, which may be split in several ways."""
ROUGH: Final = 0.3
"""The same where our own count is an estimate."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens charged, in and out."""

    tokens_in: int
    tokens_out: int


def _true(tokens: object, text: bool) -> bool:
    """Whether a reported count can be true: an integer >= 0, not absurd, and not 0 for something."""
    return type(tokens) is int and tokens <= MOST_TOKENS and (tokens > 0 or (tokens == 0 and not text))


def believed(reported: object, counted: int, exact: bool = True) -> bool:
    """Whether a report can be true beside our own count: too low a one is a lie, for nobody gives tokens away."""
    least = math.floor(counted * (1 - (TOLERANCE if exact else ROUGH)))
    return _true(reported, counted > 0) and type(reported) is int and reported >= least


def usage(count: Count, result: LLMResult, prompt_tokens: int, max_tokens: int, *, exact: bool = True) -> Usage:
    """Counts to settle with; ``count`` counts tokens of a text, ``exact`` or not.

    The prompt: as reported; as counted before the call when the report is missing, no integer, absurd, or more
    than ``TOLERANCE`` (``ROUGH``) too low. The answer: the same; and the larger of reported and counted when either exceeds
    ``max_tokens``. A result that says timeout or cancelled and has no count is charged in full.
    Raises BackendError when the answer cannot be counted.
    """
    tokens_in = result.tokens_in if believed(result.tokens_in, prompt_tokens, exact) else prompt_tokens
    counted = count(result.text) if result.text else 0
    if result.status in (LLMStatus.TIMEOUT, LLMStatus.CANCELLED) and not _true(result.tokens_out, True):
        return Usage(tokens_in, max(counted, max_tokens))
    reported = result.tokens_out if _true(result.tokens_out, bool(result.text)) else 0
    if not believed(result.tokens_out, counted, exact) or max(reported, counted if exact else 0) > max_tokens:
        return Usage(tokens_in, max(reported, counted))
    return Usage(tokens_in, reported)
