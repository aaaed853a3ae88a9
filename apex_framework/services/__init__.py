"""The only doors out of an agent: models and tools; and what may stand around and in the way of a call."""

from .advice import chain, denial
from .breaker import Breakers, BreakerSettings
from .llm import LLMService
from .streaming import Stream
from .tokenizers import TokenizerPool
from .tools import (
    E_ARG,
    E_BUDGET,
    E_DIRECT,
    E_EPOCH,
    E_LOOP,
    E_NOTFOUND,
    E_POLICY,
    E_TIMEOUT,
    E_TOOL,
    DoorSettings,
    ToolService,
)

__all__ = [
    "E_ARG",
    "E_BUDGET",
    "E_DIRECT",
    "E_EPOCH",
    "E_LOOP",
    "E_NOTFOUND",
    "E_POLICY",
    "E_TIMEOUT",
    "E_TOOL",
    "BreakerSettings",
    "Breakers",
    "DoorSettings",
    "LLMService",
    "Stream",
    "TokenizerPool",
    "ToolService",
    "chain",
    "denial",
]
