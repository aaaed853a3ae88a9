"""LLM backend: text in, text out, with the model's own token counts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ..events import Event


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
    role: str = ""
    """Who asks: a backend of several instances gives each role its own. No part of the question."""


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
    failure: str = ""
    """The ``Failure`` of a call that did not end well, where it is known."""


@dataclass(frozen=True, slots=True)
class LLMCapabilities:
    """What a backend is."""

    model_id: str
    context_tokens: int
    deterministic: bool
    """True when the same request always gives the same answer and declared latency."""
    is_llm: bool = True
    """False for scripted and rule-based backends; reports say so."""
    seeded: bool = False
    """Honours temperature 0 and the seed, so that an answer repeats but for what batching and hardware change."""
    exact_counts: bool = True
    """False when ``count_tokens`` only estimates, because the model's tokenizer is not at hand."""
    keeps_max_tokens: bool = False
    """Never generates more than ``max_tokens``: answers need not be cut by their text, which a tokenizer may split into more."""

    @property
    def determinism(self) -> str:
        """``exact``, ``seeded`` or ``none``."""
        return "exact" if self.deterministic else "seeded" if self.seeded else "none"


@runtime_checkable
class LLMBackend(Protocol):
    """A source of answers. Cancelling ``generate`` must release everything it holds."""

    @property
    def capabilities(self) -> LLMCapabilities:
        """What this backend is; constant."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text by the model's own tokenizer, or an estimate (``exact_counts``); must not block for long."""
        ...

    async def generate(self, request: LLMRequest) -> LLMResult:
        """Answer one request with at most ``max_tokens`` tokens. Raises BackendError on failure."""
        ...

    async def close(self) -> None:
        """Release connections, processes and models; idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed answer; the last one carries the result. A server's keep-alive is no chunk.

    Without text and without result it is no data: it holds up no deadline.
    """

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


# --- optional abilities of a backend, beside Streams and Warms ---


@dataclass(frozen=True, slots=True)
class Health:
    """How a backend is: whether it could answer now, why not, and the version of what answers."""

    ok: bool
    detail: str = ""
    version: str = ""
    failure: str = ""
    """The ``Failure`` that a call would end with, where it is known."""
    remedy: str = ""
    """What to do about it, in a line, where that is known."""


@runtime_checkable
class ChecksHealth(Protocol):
    """Optional ability: say how it is, without a model call."""

    async def health(self) -> Health:
        """Look, in seconds at most; what is wrong is an answer, not an error."""
        ...


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model answers; empty or 0 where that is not known. Digests are ``sha256:...`` or what the server calls them."""

    model_id: str
    model_digest: str = ""
    tokenizer_digest: str = ""
    context_tokens: int = 0
    quantisation: str = ""
    server: str = ""
    """Name and version of what serves it."""


@runtime_checkable
class Identifies(Protocol):
    """Optional ability: name exactly what answers, for the record of a run."""

    async def identity(self) -> ModelIdentity:
        """Constant while the backend is open. Raises BackendError when it cannot be found out."""
        ...


@runtime_checkable
class CountsRequests(Protocol):
    """Optional ability: count a whole prompt as the model will see it, chat template included."""

    def count_request(self, request: LLMRequest) -> int:
        """Tokens of system and prompt within their template; must not block for long."""
        ...


@runtime_checkable
class CountsAhead(Protocol):
    """Optional ability: another process counts, for backends with ``exact_counts``, so let it before the loop must wait."""

    async def count_ahead(self, request: LLMRequest, *texts: str) -> None:
        """Afterwards the counts of the request and of the texts are at hand at once. Raises BackendError."""
        ...


@runtime_checkable
class CountsTokens(Protocol):
    """Optional ability: the server counts, for backends without ``exact_counts``."""

    async def count_batch(self, texts: Sequence[str]) -> Sequence[int]:
        """Tokens of each text by the server's tokenizer. Raises BackendError."""
        ...


class Tokenizer(Protocol):
    """Counts tokens as a model does; may be used from several threads."""

    def count(self, text: str) -> int:
        """Tokens of a text."""
        ...


@runtime_checkable
class Unloads(Protocol):
    """Optional ability: give a model's memory free and stay usable."""

    async def unload(self) -> None:
        """Afterwards the model is not in memory, and the next call loads it again.

        A call under way ends first, or fails as UNLOADED: never without a word. Raises BackendError.
        """
        ...


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in a server's memory, and how many bytes it holds; 0 where that is not told."""

    name: str
    size: int = 0


@runtime_checkable
class ListsLoaded(Protocol):
    """Optional ability of a server of several models: say which are in memory."""

    async def loaded(self) -> Sequence[LoadedModel]:
        """The least recently used first, where the server tells. Raises BackendError."""
        ...


@runtime_checkable
class TellsEvents(Protocol):
    """Optional ability: something happens in it beside calls, for the record."""

    def drain_events(self) -> Sequence[Event]:
        """What happened since it was last asked, the oldest first; at once, from any thread."""
        ...


@runtime_checkable
class LoadsTokenizer(Protocol):
    """Optional ability: the model's tokenizer can be loaded here, for backends without ``exact_counts``."""

    def load_tokenizer(self) -> Tokenizer:
        """Load it, e.g. from a tokenizer file or a GGUF vocabulary. Blocks; called once, off the loop. Raises BackendError."""
        ...
