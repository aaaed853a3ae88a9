"""Policy: may stand in the way of something, purely and with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from .llm import LLMRequest
from .message import Message
from .tool import ToolCall
from .topology import Member


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model call under judgement."""

    agent_id: str
    role: str
    request: LLMRequest


Subject = Message | ModelCall | ToolCall | Member
"""What a policy may be asked about."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """A policy's answer; ``reason`` is a stable short code when it denies."""

    allow: bool
    reason: str = ""


@runtime_checkable
class Policy(Protocol):
    """Allows or denies; no side effect that another policy could see. An exception counts as a denial."""

    @property
    def name(self) -> str:
        """Name under which it is registered; shown in denials."""
        ...

    def check(self, subject: Subject) -> Ruling:
        """Judge one subject; kinds it does not care about are allowed."""
        ...
