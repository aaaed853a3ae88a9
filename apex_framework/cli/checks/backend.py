"""Findings on a model backend: what it says of itself, and, if asked for, one small call."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import aclosing
from typing import Final

from ...catalog import Catalog
from ...errors import ApexError
from ...interfaces import (
    ChecksHealth,
    Examines,
    Finding,
    Grade,
    Identifies,
    LLMBackend,
    LLMRequest,
    LLMResult,
    LLMStatus,
    Needs,
    Streams,
    Warms,
)
from ...services.bounded import bounded
from ...services.warming import PROMPT, close_all
from ...timelimit import TimeLimitExceeded, time_limit
from .guarded import LIMIT_S, cleaned, failed, hangs, within

CALL_LIMIT_S: Final = 300.0
"""Seconds that loading a model and one small call may take."""
CALL_TOKENS: Final = 16
LONGEST_SHARE: Final = 0.4
"""Of an episode's budget that the longest calls take: 3,882 of 10,000 tokens in ``apex run --arm manager``, 96 episodes."""
USUAL_TOKENS: Final = 2_048
"""Nine of ten calls of that run are no longer."""


def needs_of(budget: int) -> Needs:
    """What an episode with so many tokens asks of a model's context."""
    longest = math.ceil(LONGEST_SHARE * budget)
    return Needs(longest, min(USUAL_TOKENS, longest))


def backend(
    name: str, catalog: Catalog, needs: Needs, *, call: bool = False, limit_s: float = LIMIT_S
) -> Iterator[Finding]:
    """Findings on the backend of this name. Raises UnknownNameError, and nothing else."""
    catalog.entry("llm_backend", name)
    try:
        with time_limit(limit_s):
            made: LLMBackend = catalog.make("llm_backend", name)
    except TimeLimitExceeded:
        yield hangs("backend", limit_s)
        return
    except ApexError as error:
        yield cleaned(failed("backend", error))
        return
    found: list[Finding] = []
    limit = limit_s + (CALL_LIMIT_S if call else 0.0)
    try:
        within(limit, lambda: _all(made, needs, found, call=call))
    except TimeLimitExceeded:
        found.append(hangs("backend", limit))
    except Exception as error:  # noqa: BLE001 - the edge to a plugin's code: its failure is a line
        found.append(failed("backend", error))
    yield from map(cleaned, found)


async def _all(made: LLMBackend, needs: Needs, found: list[Finding], *, call: bool) -> None:
    """What was found before something failed stays found."""
    try:
        if isinstance(made, Examines):
            found += await bounded(made.examine(needs))
        else:
            await _said(made, needs, found)
        if call and all(f.grade is not Grade.FAIL for f in found):
            try:
                found.append(await _call(made))
            except Exception as error:  # noqa: BLE001 - the edge to a plugin's code: its failure is a line
                found.append(failed("call", error))
    finally:
        await close_all([made])


async def _said(made: LLMBackend, needs: Needs, found: list[Finding]) -> None:
    """What a backend that cannot examine itself tells all the same."""
    if isinstance(made, ChecksHealth):
        health = await bounded(made.health())
        shown = ", ".join(filter(None, (health.version, health.detail))) or "well"
        found.append(
            Finding("health", Grade.OK if health.ok else Grade.FAIL, shown, "" if health.ok else health.remedy)
        )
        if not health.ok:
            return
    is_a = made.capabilities
    shown, context = is_a.model_id, is_a.context_tokens
    if isinstance(made, Identifies):
        known = await bounded(made.identity())
        shown = ", ".join(filter(None, (known.model_id, known.quantisation, known.server)))
        context = min(known.context_tokens or context, context)
    found.append(Finding("model", Grade.OK, shown + ("" if is_a.is_llm else ", which is no language model")))
    grade = needs.grade(context)
    more = "" if grade is Grade.OK else "take a model with more context, or a smaller --budget"
    found.append(Finding("context", grade, f"{context:,} tokens", more))


async def _call(made: LLMBackend) -> Finding:
    """One small call, timed."""
    begun = time.monotonic()
    if isinstance(made, Warms):
        await bounded(made.warm())
    asked = time.monotonic()
    request = LLMRequest(PROMPT, CALL_TOKENS, request_id="doctor")
    first, result = math.nan, None
    if isinstance(made, Streams):
        async with aclosing(made.stream(request)) as chunks:  # type: ignore[type-var]  # streams are async generators
            async for chunk in chunks:
                if chunk.text and math.isnan(first):
                    first = time.monotonic()
                result = chunk.result or result
    else:
        result = await bounded(made.generate(request))
    return _told(result, asked - begun, first - asked, time.monotonic() - asked)


def _told(result: LLMResult | None, ready_s: float, first_s: float, total_s: float) -> Finding:
    if result is None or result.status not in (LLMStatus.OK, LLMStatus.LENGTH):
        why = result.error or result.status.value if result is not None else "the stream ended without a result"
        return Finding("call", Grade.FAIL, why, "see the server's or the worker's log")
    parts = [f"ready after {ready_s:.2f} s"] if ready_s >= 0.01 else []
    if not math.isnan(first_s):
        parts.append(f"first token after {first_s:.3f} s")
    parts.append(f"all after {total_s:.3f} s")
    if result.tokens_out and total_s > 0:
        parts.append(f"{result.tokens_out / total_s:,.1f} tokens/s")
    parts.append(f"{result.tokens_in} tokens in, {result.tokens_out} out")
    if not result.text.strip():
        return Finding("call", Grade.WARN, f"an empty answer; {', '.join(parts)}", "see whether this model can chat")
    return Finding("call", Grade.OK, ", ".join(parts))
