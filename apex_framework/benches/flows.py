"""What a sender does when it is refused."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from ..interfaces import Message, RouteResult
from ..runtime import Router
from .fates import Fates
from .profiles import Throttle

RETRIED = (RouteResult.FULL, RouteResult.WRED)
"""Refusals that load explains; any other is a fault of the bench."""


class Flow:
    """Messages of one sender, receiver and class, in order; a class never waits for another one.

    With ``throttle`` the sender lets the router make it wait (``Router.route``), tries a refused message again after a
    growing pause, keeps those behind it back, and gives up after a time. Without, a refused message is lost at once.
    """

    def __init__(
        self,
        router: Router,
        fates: Fates,
        throttle: Throttle | None,
        rng: random.Random,
        start: Callable[[Any], object],
    ) -> None:
        self._router, self._fates, self._throttle, self._rng, self._start = router, fates, throttle, rng, start
        self._now = asyncio.get_running_loop().time
        self._held: deque[Message] = deque()
        self._sending = False

    def offer(self, message: Message) -> None:
        """Send it now, or behind those that are held back."""
        if self._throttle is None:
            if self._refused(message, self._router.send(message)):
                self._give_up(message)
            return
        self._held.append(message)
        if not self._sending:
            self._sending = True
            self._start(self._send_all(self._throttle))

    async def _send_all(self, throttle: Throttle) -> None:
        pause = throttle.first_ms
        while self._held:
            message = self._held[0]
            if self._now() - message.created_ts >= throttle.patience_s:
                self._give_up(message)
            elif self._refused(message, await self._router.route(message)):
                await asyncio.sleep(pause / 1000 * self._rng.uniform(0.9, 1.1))
                pause = min(2 * pause, throttle.most_ms)
                continue
            self._held.popleft()
            pause = throttle.first_ms
        self._sending = False

    def _refused(self, message: Message, result: RouteResult) -> bool:
        if result:
            return False
        if result not in RETRIED:
            raise AssertionError(f"{message.msg_id}: {result}")
        self._fates.refused(message.msg_id, result.value)
        return True

    def _give_up(self, message: Message) -> None:
        self._fates.given_up(message.msg_id, self._now())
