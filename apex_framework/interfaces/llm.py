"""LLM backend: text in, text out, with the model's own token counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class LLMRequest:
    """One call. ``prompt`` is all that the model sees (with ``system`` before it, if any)."""

    prompt: str
    max_tokens: int
    system: str = ""
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    request_id: str = ""


class LLMStatus(StrEnum):
    """How a call ended."""

    OK = "ok"
    LENGTH = "length"
    """Cut at max_tokens."""
    TIMEOUT = "timeout"
    ERROR = "error"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class LLMResult:
    """A backend's answer. Token counts are the backend's own."""

    text: str
    tokens_in: int
    tokens_out: int
    status: LLMStatus = LLMStatus.OK
    error: str = ""
    latency_ms: float = 0.0
    """Declared (deterministic backends) or measured duration of the call."""


@dataclass(frozen=True, slots=True)
class LLMCapabilities:
    """What a backend is."""

    model_id: str
    context_tokens: int
    deterministic: bool
    """True when the same request always gives the same answer and declared latency."""
    is_llm: bool = True
    """False for scripted and rule-based backends; reports say so."""


@runtime_checkable
class LLMBackend(Protocol):
    """A source of answers. Cancelling ``generate`` must release everything it holds."""

    @property
    def capabilities(self) -> LLMCapabilities:
        """What this backend is; constant."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text by the model's own tokenizer; must not block for long."""
        ...

    async def generate(self, request: LLMRequest) -> LLMResult:
        """Answer one request with at most ``max_tokens`` tokens. Raises BackendError on failure."""
        ...

    async def close(self) -> None:
        """Release connections, processes and models; idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed answer; the last one carries the result."""

    text: str
    result: LLMResult | None = None


@runtime_checkable
class Streams(Protocol):
    """Optional ability of a backend: answers come in pieces."""

    def stream(self, request: LLMRequest) -> AsyncIterator[Chunk]:
        """Pieces of the answer; closing the iterator cancels the call."""
        ...


@runtime_checkable
class Warms(Protocol):
    """Optional ability of backends, agents and tools: prepare before first use."""

    async def warm(self) -> None:
        """Load, connect or compile what the first call would otherwise pay for."""
        ...
