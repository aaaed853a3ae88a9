"""The coordinator: at most one switch at a time, not too early, not too often; the latest wish wins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ..events import TopologyChanged
from .switch import SwitchEngine, SwitchResult


@dataclass(frozen=True, slots=True)
class Deferred:
    """A wish that waits, or that was dropped: ``dwell``, ``cooldown``, ``in_flight``, or ``active`` (nothing to do)."""

    target: str
    reason: str


class Coordinator:
    """Stands between a controller's wishes and the switch engine.

    Time is counted in steps: a topology stays for at least ``dwell`` of them, and after a switch, or
    an attempt that was aborted, ``cooldown`` steps pass before the next. ``on_change`` hears of
    commits only.
    """

    def __init__(
        self,
        engine: SwitchEngine,
        *,
        dwell: int = 2,
        cooldown: int = 2,
        on_change: Callable[[TopologyChanged], None] | None = None,
        episode_id: str = "",
    ) -> None:
        self._engine = engine
        self._dwell, self._cooldown = dwell, cooldown
        self._on_change = on_change
        self._episode_id = episode_id
        self._since_switch = 0
        self._since_attempt = cooldown
        self.pending: str | None = None
        """The latest wish that could not be carried out yet."""
        self.switch_lock = asyncio.Lock()
        """Held while a switch is in flight."""
        self.topology_changed = asyncio.Event()
        """Set by every commit; a listener clears it."""

    @property
    def steps_since_switch(self) -> int:
        """Steps under the current topology."""
        return self._since_switch

    @property
    def can_switch(self) -> bool:
        """Whether a request would be carried out at once."""
        return self._obstacle() == ""

    def step(self) -> None:
        """One more message has been handled."""
        self._since_switch += 1
        self._since_attempt += 1

    async def request(self, target: str) -> SwitchResult | Deferred:
        """Switch now, or keep the wish as the latest one. Wishing for the active topology takes back an earlier wish."""
        if obstacle := self._obstacle():
            withdrawn = target == self._engine.active()[0] and obstacle != "in_flight"
            self.pending = None if withdrawn else target
            return Deferred(target, "active" if withdrawn else obstacle)
        self.pending = None
        if target == self._engine.active()[0]:
            return Deferred(target, "active")
        return await self._switch(target)

    async def apply_deferred(self) -> SwitchResult | None:
        """Carry out the latest deferred wish if that is allowed by now; None when there is nothing to do."""
        if self.pending is None or self._obstacle():
            return None
        result = await self.request(self.pending)
        return result if isinstance(result, SwitchResult) else None

    def _obstacle(self) -> str:
        if self.switch_lock.locked():
            return "in_flight"
        if self._since_attempt < self._cooldown:
            return "cooldown"
        if self._since_switch < self._dwell:
            return "dwell"
        return ""

    async def _switch(self, target: str) -> SwitchResult:
        async with self.switch_lock:
            origin = self._engine.active()[0]
            result = await self._engine.switch_to(target)
            self._since_attempt = 0
            if result.ok:
                self._since_switch = 0
                self.topology_changed.set()
                if self._on_change is not None:
                    self._on_change(TopologyChanged(self._episode_id, origin, target, result.epoch))
        return result
