"""What the calls of one model service share, and what they are counted in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ..budget import Durations, Guard
from ..events import Event
from ..ports import Clock
from .streaming import Stages
from .tokenizers import TokenizerPool


@dataclass(slots=True)
class Handle:
    """A call from its request on, as ``cancel`` finds it."""

    stopped: bool = False
    limit: asyncio.Timeout | None = None

    def stop(self) -> None:
        """End it now."""
        self.stopped = True
        if self.limit is not None and not self.limit.expired() and self.limit.when() is not None:
            self.limit.reschedule(0.0)


@dataclass(slots=True)
class CallStats:
    """Plain counters of a service."""

    calls: int = 0
    retries: int = 0
    cut: int = 0
    """Answers that we ended at max_tokens, because the model did not."""
    disbelieved: int = 0
    """Answers whose reported usage cannot be true."""
    dropped: int = 0
    """Answers that came after their call was cancelled."""
    failures: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Desk:
    """What every call of one service shares."""

    guard: Guard
    clock: Clock
    pool: TokenizerPool
    stats: CallStats
    on_event: Callable[[Event], None]
    deadline_s: float
    stages: Stages
    retries: int
    free_messages: bool
    durations: Durations | None
