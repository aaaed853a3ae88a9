"""Model backends under seal: their service can call them, and whoever else comes by one of them is refused and told of.

As with tools (``tools.seal``) this is for mistakes and for the record, no wall against hostile Python: what is behind a
seal is reached by no attribute, but the interpreter hides nothing from who looks for it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from ..interfaces.llm import ChecksHealth, Health, LLMBackend, LLMCapabilities, LLMRequest, LLMResult, LLMStatus
from .tools.codes import E_DIRECT

_log = logging.getLogger(__name__)

Blocked = Callable[[str, str], None]
"""Told of a direct call: for which role the backend is, and which role asked."""


class SealedBackend:
    """A backend as everybody but its service sees it: it can be looked at and counts tokens, and answers nothing."""

    __slots__ = ("_blocked", "_capabilities", "_count", "_role")

    def __init__(self, role: str, backend: LLMBackend, blocked: Blocked) -> None:
        self._role, self._blocked = role, blocked
        self._capabilities: Callable[[], LLMCapabilities] = lambda: backend.capabilities
        self._count: Callable[[str], int] = lambda text: backend.count_tokens(text)

    @property
    def capabilities(self) -> LLMCapabilities:
        """What the backend is."""
        return self._capabilities()

    def count_tokens(self, text: str) -> int:
        """As the backend counts."""
        return self._count(text)

    async def generate(self, request: LLMRequest) -> LLMResult:
        """Refused with ``E_DIRECT`` and told of; nothing reaches the backend, and no budget pays."""
        _log.warning("a direct call of the backend for %r was blocked", self._role)
        self._blocked(self._role, str(getattr(request, "role", "")))
        return LLMResult("", 0, 0, LLMStatus.ERROR, f"{E_DIRECT}: the backend is behind its service: use context.ask")

    async def close(self) -> None:
        """Nothing: its service closes it."""


class SealedHealthBackend(SealedBackend):
    """The same for a backend that can say how it is."""

    __slots__ = ("_health",)

    def __init__(self, role: str, backend: LLMBackend, blocked: Blocked) -> None:
        super().__init__(role, backend, blocked)
        assert isinstance(backend, ChecksHealth)
        asked: ChecksHealth = backend
        self._health: Callable[[], Awaitable[Health]] = lambda: asked.health()

    async def health(self) -> Health:
        """What the backend says of itself."""
        return await self._health()


def sealed_backends(backends: Mapping[str, LLMBackend], blocked: Blocked) -> dict[str, SealedBackend]:
    """Each backend under seal, by role."""
    return {
        role: (SealedHealthBackend if isinstance(backend, ChecksHealth) else SealedBackend)(role, backend, blocked)
        for role, backend in backends.items()
    }
