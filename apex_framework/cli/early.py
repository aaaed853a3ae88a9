"""Results that are an unregistered look say so first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .context import Context


def emit_looked(context: Context, value: Mapping[str, Any], lines: Sequence[str], early: str) -> None:
    """The result; where ``early`` says that it is an unregistered look, under that sentence."""
    if early:
        value, lines = {**value, "unregistered_look": early}, [early, *lines]
    context.emit(value, "\n".join(lines))
