"""The backends that a bench measures: one for all roles or one per role, as ``--backend`` names them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..interfaces import LLMBackend, ModelIdentity

ROLES: Final = ("planner", "coder", "runner", "critic", "summarizer")
"""Who asks where one backend is for all."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Backends by the names they were asked for with, and whom each answers: roles, or ``*`` for every other."""

    backends: Mapping[str, LLMBackend]
    roles: Mapping[str, str]

    def of(self, role: str) -> str:
        """The name of a role's backend."""
        return self.roles.get(role) or self.roles["*"]

    def by_role(self) -> dict[str, LLMBackend]:
        """What a model service is made with."""
        return {role: self.backends[name] for role, name in self.roles.items()}

    def askers(self) -> tuple[str, ...]:
        """Roles that ask: those named, and the usual ones where there is a backend for every other."""
        named = tuple(role for role in self.roles if role != "*")
        return (*named, *(role for role in ROLES if role not in named)) if "*" in self.roles else named


def chosen(text: str | None) -> dict[str, str]:
    """Role -> backend from ``NAME[:MODEL]`` or ``coder=NAME:MODEL,*=NAME``; roles that are not named are not measured.

    None: what a run would take; where nobody names a backend for it, llama_cpp if there is APEX_GGUF_MODEL_PATH. Raises
    ConfigError.
    """
    from ..config import load_settings
    from ..errors import ConfigError

    if text is None:
        found = load_settings()
        if found.origins["backend"] == "default" and os.environ.get("APEX_GGUF_MODEL_PATH"):
            return {"*": "llama_cpp"}
        return dict(found.settings.backend)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    pairs = [part.partition("=") for part in parts]
    given = {role.strip() if eq else "*": (name if eq else role).strip() for role, eq, name in pairs}
    if not given or not all(given) or not all(given.values()) or len(given) != len(parts):
        raise ConfigError(
            f"--backend {text!r} names no backend, or two for one role", "NAME[:MODEL], or ROLE=NAME,*=NAME"
        )
    return given


@asynccontextmanager
async def opened(roles: Mapping[str, str]) -> AsyncIterator[Opened]:
    """The backends; one that is named twice is made once. Raises what makes a backend impossible."""
    from ..plugins import load_plugins
    from ..services.warming import close_all

    catalog = load_plugins().catalog
    backends: dict[str, LLMBackend] = {}
    try:
        for name in roles.values():
            if name not in backends:
                backends[name] = catalog.make("llm_backend", name)
        yield Opened(backends, roles)
    finally:
        await close_all(backends.values())


async def identity(backend: LLMBackend) -> ModelIdentity:
    """What answers, as exactly as the backend can tell. Raises BackendError."""
    from ..interfaces import Identifies, ModelIdentity

    if isinstance(backend, Identifies):
        return await backend.identity()
    return ModelIdentity(backend.capabilities.model_id, context_tokens=backend.capabilities.context_tokens)
