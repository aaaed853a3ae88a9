"""What `apex doctor` asks of a backend: what it needs is there, as findings that a person can act on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable


class Grade(StrEnum):
    """How good something is."""

    OK = "ok"
    WARN = "warn"
    """It works, and not as well as it could."""
    FAIL = "fail"
    """A run would fail."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. No secret belongs into any of its texts."""

    what: str
    """What was looked at, in a word or two: ``server``, ``context``."""
    grade: Grade
    found: str
    remedy: str = ""
    """What to do about it; empty where nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What calls will ask of a model, in tokens of prompt and answer together."""

    context_tokens: int
    """Of the longest calls that a team makes with its budget."""
    least_context_tokens: int
    """Of its ordinary calls: with less, too many of them are refused."""

    def grade(self, context_tokens: int) -> Grade:
        """Of a model with so long a context."""
        if context_tokens < self.least_context_tokens:
            return Grade.FAIL
        return Grade.WARN if context_tokens < self.context_tokens else Grade.OK


@runtime_checkable
class Examines(Protocol):
    """Optional ability of a backend: look at everything that a call needs, without one."""

    async def examine(self, needs: Needs) -> Sequence[Finding]:
        """Findings in the order in which they were made, in seconds at most; what is wrong is a finding, not an error."""
        ...
