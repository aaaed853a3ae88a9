"""One broken policy per check of the kit: each fails exactly that one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ...interfaces import Message, Policy, Ruling, Subject, ToolCall


class Sound:
    """A policy with nothing wrong: no paths out of the workspace."""

    name = "sound"

    def check(self, subject: Subject) -> Ruling:
        """Denies ``..``."""
        if isinstance(subject, ToolCall) and ".." in str(subject.arguments.get("path", "")):
            return Ruling(False, "path")
        return Ruling(True)


class Nameless(Sound):
    """Has an empty name."""

    name = ""


class Raises(Sound):
    """Knows messages only."""

    def check(self, subject: Subject) -> Ruling:
        """Fails for others."""
        if not isinstance(subject, Message):
            raise TypeError("not a message")
        return Ruling(True)


class AnswersTrue(Sound):
    """Takes a bool for a ruling."""

    def check(self, subject: Subject) -> Any:
        """A bool."""
        return True


class DeniesWithoutReason(Sound):
    """Says no and nothing else."""

    def check(self, subject: Subject) -> Ruling:
        """Denies all."""
        return Ruling(False)


class MarksMessages(Sound):
    """Writes into what it judges."""

    def check(self, subject: Subject) -> Ruling:
        """Leaves a mark."""
        if isinstance(subject, Message):
            subject.payload["seen"] = True
        return Ruling(True)


class ThrowsDice(Sound):
    """Decides by chance."""

    def check(self, subject: Subject) -> Ruling:
        """Denies with another code each time."""
        return Ruling(False, f"dice-{random.SystemRandom().getrandbits(64)}")


BROKEN: dict[str, Callable[[], Policy]] = {
    "has_a_name": Nameless,
    "never_raises": Raises,
    "answers_with_a_ruling": AnswersTrue,
    "denials_have_a_reason": DeniesWithoutReason,
    "leaves_subjects_alone": MarksMessages,
    "same_subjects_same_rulings": ThrowsDice,
}
"""Check -> a policy that fails it."""
