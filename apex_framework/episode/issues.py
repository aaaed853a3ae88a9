"""The bucket of an issue, from its text alone: nothing that grading knows may reach a cache of plans."""

from __future__ import annotations

import re
from typing import Final

NONE: Final = "none"
_ERROR: Final = re.compile(r"\b([A-Za-z_]\w*(?:Error|Exception|Warning|Interrupt|Iteration|Exit))\b")
_EXAMPLE: Final = re.compile(r"^(?: {4}|\t|>>> |```)\s*\S", re.MULTILINE)
_OUTCOME: Final = re.compile(r"\b(?:gives?|gave|got|returns?|returned|prints?|printed|yields?|expected|instead of)\b")


def issue_cluster(issue: str) -> str:
    """``shape:error``, the same for issues that tell of the same kind of failure.

    The error is the last error type that the text names, in lower case: reports say what should happen before what
    does. The shape is ``error`` where there is one; ``value`` where an example or words such as "returns" tell of a
    wrong outcome; else ``vague``.
    """
    named = _ERROR.findall(issue)
    if named:
        return f"error:{named[-1].lower()[:40]}"
    told = _EXAMPLE.search(issue) or _OUTCOME.search(issue.lower())
    return f"{'value' if told else 'vague'}:{NONE}"
