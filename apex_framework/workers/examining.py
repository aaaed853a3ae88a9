"""Findings on a model that is loaded here: whether its context suffices, and whether this machine can hold it."""

from __future__ import annotations

from ..errors import ConfigError
from ..interfaces.examining import Finding, Grade, Needs
from .machine import Memory, memory_now
from .memory import limits_from


def context_finding(context: int, made_for: int, needs: Needs) -> Finding:
    """``context`` is what the backend gives each call, ``made_for`` what the model can have at most; 0 where it does not tell."""
    grade = needs.grade(context)
    shown = f"{context:,} tokens" + (f" of {made_for:,} that the model was made for" if made_for else "")
    if needs.context_tokens > context:
        shown += f"; the budget's longest calls have about {needs.context_tokens:,}"
    if grade is Grade.OK:
        return Finding("context", grade, shown)
    more = "give the option context, or" if made_for > context else "take a model with a longer context, or"
    return Finding("context", grade, shown, f"{more} a smaller --budget")


def memory_finding(need: int, copies: str, now: Memory | None = None) -> Finding:
    """``need`` bytes, estimated, against what is free ``now`` (by default, what this machine says)."""
    now = now or memory_now()
    shown = f"about {gigabytes(need)} for {copies}"
    if now is None:
        return Finding("memory", Grade.WARN, f"{shown}; this system does not tell how much is free", "see for yourself")
    shown += f"; {gigabytes(now.available)} of {gigabytes(now.total)} are free"
    remedy = "take a smaller quantisation or model, less context or fewer instances, or end other programs"
    if need > now.available:
        return Finding("memory", Grade.FAIL, shown, remedy)
    try:
        limits = limits_from()
    except ConfigError as error:
        return Finding("memory", Grade.FAIL, error.cause, error.remedy or "correct the variable, or unset it")
    if now.available - need < limits.warn * now.total:
        left = f"{max(0.0, (now.available - need) / now.total):.0%} would be left"
        when = f"below {limits.unload:.0%} models are unloaded"
        return Finding("memory", Grade.WARN, f"{shown}; {left}, and {when}", remedy)
    return Finding("memory", Grade.OK, shown)


def gigabytes(size: float) -> str:
    """``4.4 GB``; small ones in MB."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"
