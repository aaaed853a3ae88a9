"""When to ask again: after a pause with full jitter, or as long as the server asks for."""

from __future__ import annotations

import math
import random
from datetime import UTC
from typing import Final

from ..errors import BackendError, Failure

BACKOFF_S: Final = 0.1
BACKOFF_MAX_S: Final = 5.0


def pause_s(attempt: int, jitter: random.Random) -> float:
    """Seconds before the n-th retry: uniform between 0 and min(``BACKOFF_MAX_S``, ``BACKOFF_S`` x 2^n)."""
    return jitter.uniform(0, min(BACKOFF_MAX_S, BACKOFF_S * 2**attempt))


def may_retry(error: BackendError, attempt: int, retries: int) -> bool:
    """Whether to ask again after attempt 0, 1, …: nothing was charged, and a model that was unloaded gets one more."""
    return error.retryable and attempt < (min(retries, 1) if error.kind is Failure.UNLOADED else retries)


def retry_after_s(value: object, *, wall_s: float) -> float | None:
    """Seconds that a server asks to be left alone, from its ``Retry-After`` (RFC 9110, 10.2.3): a number or a date.

    ``wall_s`` is now, in seconds since the epoch. Moments that have passed are 0; what is no time is None. However
    absurd the answer: how long anybody waits is bounded by the call's deadline.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return math.inf
    except ValueError:
        return _until(str(value), wall_s)
    return None if math.isnan(seconds) else max(0.0, seconds)


def _until(date: str, wall_s: float) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(date)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - wall_s)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
