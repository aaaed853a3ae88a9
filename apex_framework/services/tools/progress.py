"""Progress of a long call: told as events, seldom enough, and from any thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ...events import Event, ToolProgressed
from ...interfaces.tool import ToolCall
from ...ports import Clock

Listener = Callable[[float, str], None]

EVERY_S: Final = 1.0
"""Seconds between two events of one call, and before its first."""
WORDS: Final = 200
"""Characters of what a call says of itself."""

_log = logging.getLogger(__name__)


class Progress:
    """What a server calls as ``ToolCall.progress``: never raises, never blocks, and does nothing once the call is over."""

    __slots__ = ("_call", "_clock", "_episode_id", "_last", "_listener", "_loop", "_over", "_tell")

    def __init__(
        self, clock: Clock, tell: Callable[[Event], None], episode_id: str, call: ToolCall, listener: Listener | None
    ) -> None:
        self._clock, self._tell, self._episode_id, self._call, self._listener = clock, tell, episode_id, call, listener
        self._loop = asyncio.get_running_loop()
        self._last, self._over = clock.monotonic(), False

    def __call__(self, share: float, text: str = "") -> None:
        """Tell how far the call is; most of it is dropped."""
        try:
            now = self._clock.monotonic()
            if self._over or now - self._last < EVERY_S:
                return
            share = float(share)
            share = min(1.0, max(0.0, share)) if share == share else 0.0
            self._last = now
            if _running_loop() is self._loop:
                self._say(share, str(text)[:WORDS])
            else:
                self._loop.call_soon_threadsafe(self._say, share, str(text)[:WORDS])
        except Exception:  # noqa: BLE001 - a plugin's edge: what a tool says of itself must not fail it
            _log.warning("progress of %s could not be told", self._call.tool, exc_info=True)

    def close(self) -> None:
        """The call is over."""
        self._over = True

    def _say(self, share: float, text: str) -> None:
        if self._over:
            return
        who = self._call.capability
        self._tell(ToolProgressed(self._episode_id, who.agent_id, who.role, self._call.tool, share, text))
        if self._listener is not None:
            self._listener(share, text)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
