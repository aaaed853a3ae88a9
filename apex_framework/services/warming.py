"""Getting backends ready before anything is measured, and closing them when all is done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from ..errors import BackendError, Failure
from ..events import BackendWarmed
from ..interfaces.llm import LLMBackend, LLMRequest, Warms
from ..ports import Clock
from .bounded import bounded
from .tokenizers import TokenizerPool
from .usage import usage

_log = logging.getLogger(__name__)

PROMPT: Final = "Reply with the word ready."
MAX_TOKENS: Final = 8
CLOSING_S: Final = 10.0
"""A backend may take so long to close."""


async def warmed(
    backend: LLMBackend, pool: TokenizerPool, clock: Clock, calls: int, deadline_s: float
) -> BackendWarmed:
    """Load what there is to load and make ``calls`` small calls, all within ``deadline_s``; what fails is told."""
    began, done, tokens_in, tokens_out, failure = clock.monotonic(), 0, 0, 0, ""
    try:
        async with asyncio.timeout(deadline_s):
            if isinstance(backend, Warms):
                await bounded(backend.warm())
            await pool.warm(backend)
            for number in range(calls):
                request = LLMRequest(PROMPT, MAX_TOKENS, request_id=f"warm{number + 1}")
                count, exact = pool.counter(backend)
                cost = usage(count, await bounded(backend.generate(request)), count(PROMPT), MAX_TOKENS, exact=exact)
                done, tokens_in, tokens_out = done + 1, tokens_in + cost.tokens_in, tokens_out + cost.tokens_out
    except TimeoutError:
        failure = Failure.TOTAL_TIMEOUT
    except Exception as error:  # noqa: BLE001 - a plugin's edge: a backend that is not ready is told, and may be yet
        failure = error.kind if isinstance(error, BackendError) else type(error).__name__
        _log.warning("warm-up of %s: %s", backend.capabilities.model_id, error)
    elapsed_ms = (clock.monotonic() - began) * 1000
    return BackendWarmed(backend.capabilities.model_id, done, tokens_in, tokens_out, elapsed_ms, str(failure))


async def close_all(backends: Iterable[LLMBackend]) -> None:
    """Close each, whatever the others do, within ``CLOSING_S`` each. Raises what the first that failed raised."""
    first: Exception | None = None
    for backend in backends:
        try:
            async with asyncio.timeout(CLOSING_S):
                await bounded(backend.close())
        except TimeoutError:
            first = first or BackendError(f"{type(backend).__name__} did not close within {CLOSING_S:g} s")
        except Exception as error:  # noqa: BLE001 - a plugin's edge: the others are closed all the same
            first = first or error
    if first is not None:
        raise first
