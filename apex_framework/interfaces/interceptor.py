"""Interceptor: ordered around-advice at four points of an agent's work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable


class Point(StrEnum):
    """Where an interceptor may stand."""

    SEND = "send"
    HANDLE = "handle"
    MODEL_CALL = "model_call"
    TOOL_CALL = "tool_call"


@dataclass(frozen=True, slots=True)
class Intercepted:
    """What passes a point: ``subject`` is a Message, LLMRequest or ToolCall."""

    point: Point
    subject: Any
    agent_id: str
    role: str
    episode_id: str


@runtime_checkable
class Interceptor(Protocol):
    """Wraps what passes its points; the first declared is the outermost."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    @property
    def points(self) -> frozenset[Point]:
        """Points at which it stands."""
        ...

    async def around(self, passing: Intercepted, proceed: Callable[[Intercepted], Awaitable[Any]]) -> Any:
        """Do something before, after or instead of ``proceed``, and return what that point returns.

        ``proceed`` may be awaited at most once. Cancellation and limits must pass through.
        """
        ...
