"""What an agent is told of a model call that has no answer."""

from __future__ import annotations

import logging

from ..errors import ApexError, BackendError, Failure
from ..interfaces.llm import LLMResult, LLMStatus

_log = logging.getLogger(__name__)


def stopped() -> LLMResult:
    """A call that was cancelled."""
    return LLMResult("", 0, 0, LLMStatus.CANCELLED, "cancelled", failure=Failure.CANCELLED)


def late(seconds: float | None) -> LLMResult:
    """A call that did not end within so many seconds, or within a time limit of the backend's own."""
    told = "the backend's own time limit" if seconds is None else f"no answer within {seconds:g} s"
    return LLMResult("", 0, 0, LLMStatus.TIMEOUT, told, failure=Failure.TOTAL_TIMEOUT)


def failed(error: BaseException) -> LLMResult:
    """A failed call, for the agent that asked."""
    known = isinstance(error, ApexError)
    if known:
        _log.info("model call failed: %s", error)
    else:
        _log.warning("model call failed: %s", error, exc_info=error)
    kind = error.kind if isinstance(error, BackendError) else Failure.UNKNOWN
    late = kind in (Failure.FIRST_TOKEN_TIMEOUT, Failure.IDLE_TIMEOUT, Failure.TOTAL_TIMEOUT)
    status = LLMStatus.TIMEOUT if late else LLMStatus.ERROR
    return LLMResult("", 0, 0, status, str(error) if known else f"{type(error).__name__}: {error}", failure=kind)
