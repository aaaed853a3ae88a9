"""What a session is given, and what it says of its steps and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..interfaces import AgentID, CallTags, Interceptor, Message
from ..services import LLMService, ToolService


@dataclass(frozen=True, slots=True)
class Step:
    """One handled message: who handled it, and whether that went well."""

    number: int
    agent: AgentID
    role: str
    message: Message
    error: str = ""
    final: bool = False
    """True when nothing follows this step: somebody has finished, nothing is left to do, or it is the last allowed."""


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """Why a session ended: ``finished`` by an agent, ``quiet`` (nothing left to do) or ``max_steps``."""

    status: str
    reason: str
    steps: int
    faults: tuple[str, ...] = ()
    """What went wrong at work, in order: ``agent: error``."""


@dataclass
class Services:
    """The doors that a session's agents share."""

    llm: LLMService
    tools: ToolService
    headroom: Callable[[CallTags], Mapping[str, float]]
    """Scope name -> free share of its token budget."""
    interceptors: Sequence[Interceptor] = ()
