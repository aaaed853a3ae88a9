"""The only doors out of an agent: models and tools."""

from .llm import LLMService
from .tools import E_ARG, E_POLICY, E_TIMEOUT, E_TOOL, ToolService

__all__ = ["E_ARG", "E_POLICY", "E_TIMEOUT", "E_TOOL", "LLMService", "ToolService"]
