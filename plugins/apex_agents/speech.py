"""How agents speak: a kind of message and sections of the prompt grammar."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apex_framework.interfaces import Message
from apex_framework.interfaces.prompting import Kind, Section

TASK = "task"
FOCUS = "focus"
FAILURES = "failures"
CANDIDATES = "candidates"
RESULTS = "results"
PASSING = "passing"
ACCEPT = "accept"
REJECT = "reject"
STUCK = "stuck"
SUMMARY = "summary"


def payload(kind: str, sections: Iterable[Section], **data: Any) -> dict[str, Any]:
    """A message's payload; ``data`` must be JSON-ready."""
    return {"kind": kind, "sections": [[s.kind.value, s.label, s.body] for s in sections], **data}


def kind_of(message: Message) -> str:
    """What kind of message it is; empty for one that is not of this grammar."""
    kind = message.payload.get("kind", "")
    return kind if isinstance(kind, str) else ""


def sections_of(message: Message) -> tuple[Section, ...]:
    """The sections that a message carries; parts that are not sections are left out."""
    return tuple(
        Section(Kind(item[0]), str(item[2]), str(item[1]))
        for item in message.payload.get("sections") or ()
        if isinstance(item, list) and len(item) == 3 and item[0] in Kind.__members__
    )
