"""The only doors out of an agent: models and tools; and what may stand around and in the way of a call."""

from .advice import chain, denial
from .breaker import Breakers, BreakerSettings
from .llm import LLMService
from .streaming import Stream
from .tokenizers import TokenizerPool
from .tools import E_ARG, E_POLICY, E_TIMEOUT, E_TOOL, ToolService

__all__ = [
    "E_ARG",
    "E_POLICY",
    "E_TIMEOUT",
    "E_TOOL",
    "BreakerSettings",
    "Breakers",
    "LLMService",
    "Stream",
    "TokenizerPool",
    "ToolService",
    "chain",
    "denial",
]
