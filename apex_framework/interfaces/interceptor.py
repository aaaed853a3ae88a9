"""Interceptor: ordered around-advice at four points of an agent's work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ..events import Event
from ..events import Event


class Point(StrEnum):
    """Where an interceptor may stand."""

    SEND = "send"
    HANDLE = "handle"
    MODEL_CALL = "model_call"
    TOOL_CALL = "tool_call"


@dataclass(frozen=True, slots=True)
class PlanKey:
    """What a plan is for, made by the kernel: an interceptor sees no other part of a task."""

    repo_id: str
    """The task's repository; where it has none, its cluster."""
    issue_cluster: str
    """Bucket of the issue, made of its text alone."""
    phase: str
    """Phase of the episode when the key was made: planning, implementation or debug."""


@dataclass(frozen=True, slots=True)
class Intercepted:
    """What passes a point: ``subject`` is a Message, LLMRequest or ToolCall."""

    point: Point
    subject: Any
    agent_id: str
    role: str
    episode_id: str
    purpose: str = ""
    """What a model call is for, as the agent said; empty at other points."""
    plan: PlanKey | None = None
    """At a model call of an episode: what a plan for it would be filed under."""
    tell: Callable[[Event], None] | None = field(default=None, compare=False, repr=False)
    """Takes events into the episode's records and metrics; None where nobody keeps any."""


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
