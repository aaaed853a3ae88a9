"""The models of a worker process: backends that outlive episodes, and what all episodes' calls to them share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from ..events import BackendWarmed
from ..interfaces import LLMBackend
from ..ports import Clock, SystemClock, VirtualEffects
from ..services import Breakers, TokenizerPool
from ..services.warming import close_all, warmed
from ..workers.rotation import Shelf
from ..workers.shelved import shelved

WARM_S: Final = 120.0
"""Seconds that a backend's warm-up may take."""


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How long calls may take, how often they are tried again, and how many calls warm a backend up."""

    first_token_s: float = 60.0
    """Until a live model's first token; 0: as long as its backend allows."""
    idle_s: float = 30.0
    """Between two pieces of a live model's answer; 0: as long as its backend allows."""
    call_deadline_s: float = 60.0
    """From the request to the end of the answer, retries included."""
    call_retries: int = 2
    warm_calls: int = 5
    """To each live model of a worker process, before its first episode."""

    @classmethod
    def of(cls, run: Mapping[str, Any]) -> CallSettings:
        """What a run's settings say; what they leave out is as usual."""
        return cls(**{field.name: run[field.name] for field in fields(cls) if field.name in run})

    def for_service(self) -> dict[str, Any]:
        """The same as options of an LLMService."""
        return {
            "first_token_s": self.first_token_s or None,
            "idle_s": self.idle_s or None,
            "deadline_s": self.call_deadline_s,
            "retries": self.call_retries,
        }


class ModelRoom:
    """Makes each backend once (by ``make``) and keeps it until ``close``; warms live ones up before their first use.

    Episodes on the machine's clock share tokenizers and breakers, from one event loop to the next: what was loaded and
    learned, and that a server is down, need not be found out again. Episodes in virtual time share neither, for they
    must not depend on what was run before them.
    """

    def __init__(self, make: Callable[..., LLMBackend], resident: int | None = None) -> None:
        """With ``resident``, so many models are kept loaded here at once; the others wait for their turn."""
        self._make = make
        self._shelf = None if resident is None else Shelf(resident)
        self._backends: dict[str, LLMBackend] = {}
        self._warmed: set[int] = set()
        self.tokenizers = TokenizerPool(clock=SystemClock())
        self.breakers = Breakers()

    def backend(self, name: str, options: Mapping[str, Any]) -> LLMBackend:
        """A backend, made on first use and kept."""
        key = json.dumps([name, dict(options)], sort_keys=True, default=str)
        if key not in self._backends:
            self._backends[key] = shelved(self._shelf, name, self._make(name, **options))
        return self._backends[key]

    def shared(self, *, real_time: bool) -> dict[str, Any]:
        """``tokenizers`` and ``breakers`` for an episode's LLMService."""
        if real_time:
            return {"tokenizers": self.tokenizers, "breakers": self.breakers}
        return {"tokenizers": TokenizerPool(clock=SystemClock(), effects=VirtualEffects())}

    async def warm(
        self, backends: Iterable[LLMBackend], calls: int, clock: Clock, tell: Callable[[BackendWarmed], None]
    ) -> None:
        """Get the live ones among them ready that were not yet, once each; one that fails is told and used all the same."""
        for backend in backends:
            if id(backend) in self._warmed or backend.capabilities.deterministic:
                continue
            self._warmed.add(id(backend))
            number = calls if backend.capabilities.is_llm else 0
            tell(await warmed(backend, self.tokenizers, clock, number, WARM_S))

    def close(self) -> None:
        """Close every backend; idempotent. Raises what the first that failed raised."""
        backends, self._backends = list(self._backends.values()), {}
        self._warmed.clear()
        if backends:
            asyncio.run(self._close(backends))

    async def _close(self, backends: list[LLMBackend]) -> None:
        await self.tokenizers.close()
        await close_all(backends)
