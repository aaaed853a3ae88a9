"""The deadlines of one call: until it is connected, until its first token, between two tokens, and until its end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from dataclasses import dataclass, fields, replace
from typing import Final, TypeVar

from apex_framework.errors import BackendError, ConfigError, Failure

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds. Raises ConfigError for one that is not a positive number."""

    connect_s: float = 5.0
    first_token_s: float = 60.0
    """From the request to the first data; for streams."""
    idle_s: float = 30.0
    """Between two pieces of data; keep-alive comments are none."""
    total_s: float = 300.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ConfigError(f"{field.name} must be a positive number of seconds, not {value!r}")


HEALTH_S: Final = 5.0
"""A server that takes longer to say how it is is not well."""


class Waiting:
    """Waits on behalf of one call, for each thing as long as its stage allows. To be made when the call begins."""

    def __init__(self, deadlines: Deadlines, *, stream: bool = False, most_s: float = math.inf) -> None:
        self._deadlines = replace(deadlines, total_s=min(deadlines.total_s, most_s))
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._begun = self._last = self._loop.time()
        self._any = False

    @property
    def elapsed_ms(self) -> float:
        """How long the call has lasted."""
        return (self._loop.time() - self._begun) * 1000

    def progressed(self) -> None:
        """Data came."""
        self._any, self._last = True, self._loop.time()

    async def wait(self, work: Awaitable[T]) -> T:
        """What ``work`` answers. Raises BackendError, of the kind of the deadline that passed first."""
        when, kind, text = self._next()
        if self._loop.time() >= when:  # a timer alone does not stop work that never waits
            if asyncio.iscoroutine(work):
                work.close()
            raise BackendError(text, kind=kind)
        try:
            async with asyncio.timeout_at(when) as timer:
                return await work
        except TimeoutError:
            if not timer.expired():
                raise
            raise BackendError(text, kind=kind) from None

    def _next(self) -> tuple[float, Failure, str]:
        limits = self._deadlines
        total = self._begun + limits.total_s
        if self._stream and not self._any:
            when = self._begun + limits.first_token_s
            if when < total:
                return when, Failure.FIRST_TOKEN_TIMEOUT, f"no token within {limits.first_token_s:g} s"
        elif self._stream:
            when = self._last + limits.idle_s
            if when < total:
                return when, Failure.IDLE_TIMEOUT, f"nothing came for {limits.idle_s:g} s in the middle of an answer"
        return total, Failure.TOTAL_TIMEOUT, f"no complete answer within {limits.total_s:g} s"
