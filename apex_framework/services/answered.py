"""A model call that an interceptor answered: what it would have been, for the records."""

from __future__ import annotations

import math
from typing import Final

from ..events import CallAnswered
from ..interfaces.budget import CallTags
from ..interfaces.llm import LLMBackend, LLMRequest, LLMResult
from .tokenizers import TokenizerPool

CHARACTERS: Final = 4
"""Of a token, where nothing can count."""


def unasked(
    tokenizers: TokenizerPool, backend: LLMBackend, request: LLMRequest, tags: CallTags, purpose: str, answer: LLMResult
) -> CallAnswered:
    """The event that tells of it. Of a backend that cannot count, tokens are guessed: no budget depends on them."""
    texts = (request.system + request.prompt, answer.text)
    try:
        count, _ = tokenizers.counter(backend)
        tokens = [count(text) for text in texts]
    except Exception:  # noqa: BLE001 - a plugin's edge: the answer is there, whatever its backend can count
        tokens = [math.ceil(len(text) / CHARACTERS) for text in texts]
    return CallAnswered(tags.episode_id, tags.agent_id, tags.role, purpose, *tokens)
