"""How a failed test ends, in one line."""

from __future__ import annotations

import re

MOST = 400
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit|Interrupt|Iteration|Failed)\b")


def how_it_ends(detail: str) -> str:
    """The line of a traceback's end that names what was raised; without one its last line. Clipped in its middle."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    named = [line for line in lines if _RAISED.match(line)]
    return clip((named or lines or ["it fails"])[-1])


def clip(text: str) -> str:
    """A text cut in its middle when it is long."""
    return text if len(text) <= MOST else f"{text[: MOST // 2]} ... {text[-MOST // 2 :]}"
