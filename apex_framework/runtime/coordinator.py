"""The coordinator: at most one switch at a time, not too early, not too often; the latest wish wins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..events import TopologyChanged
from .health import TopologyHealthProbe
from .pinning import HealthPin
from .switch import SwitchEngine, SwitchResult

RECONFIGURE = "reconfigure"
"""The rung of the router's pressure on which another topology may help."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """A wish that waits, or that was dropped.

    ``reason`` is ``dwell``, ``cooldown``, ``in_flight`` or ``probe`` (it waits), ``active`` (nothing to do) or
    ``pinned`` (refused).
    """

    target: str
    reason: str


class Coordinator:
    """Stands between a controller's wishes and the switch engine.

    Time is counted in steps: a topology stays for at least ``dwell`` of them, and after a switch, or an
    attempt that was aborted, cancelled or stopped by the probe, ``cooldown`` steps pass before the next.
    ``on_change`` hears of commits only.

    A ``probe`` examines each target first, within ``probe_timeout_ms``; what fails it waits like a wish that
    came too early. A ``pin`` that is pinned refuses wishes, and ``hold`` then brings its topology into force.
    ``relief`` is the topology to ask for when the router is under pressure.
    """

    def __init__(
        self,
        engine: SwitchEngine,
        *,
        dwell: int = 2,
        cooldown: int = 2,
        on_change: Callable[[TopologyChanged], None] | None = None,
        episode_id: str = "",
        probe: TopologyHealthProbe | None = None,
        probe_timeout_ms: float = 20.0,
        pin: HealthPin | None = None,
        relief: str = "",
    ) -> None:
        for name in filter(None, (relief, pin.topology if pin is not None else "")):
            if name not in engine.topologies:
                raise ValueError(f"the engine has no topology {name!r}")
        self._engine = engine
        self._dwell, self._cooldown = dwell, cooldown
        self._on_change = on_change
        self._episode_id = episode_id
        self._probe, self._probe_timeout_ms = probe, probe_timeout_ms
        self._pin = pin
        self._relief = relief
        self._since_switch = 0
        self._since_attempt = cooldown
        self.pending: str | None = None
        """The latest wish that could not be carried out yet."""
        self.switch_lock = asyncio.Lock()
        """Held while a switch is in flight, its probe included."""
        self.topology_changed = asyncio.Event()
        """Set by every commit; a listener clears it."""

    @property
    def steps_since_switch(self) -> int:
        """Steps under the current topology."""
        return self._since_switch

    @property
    def can_switch(self) -> bool:
        """Whether a request would be carried out at once, or at least probed."""
        return self._obstacle() == ""

    def step(self) -> None:
        """One more message has been handled."""
        self._since_switch += 1
        self._since_attempt += 1

    async def request(self, target: str) -> SwitchResult | Deferred:
        """Switch now, or keep the wish as the latest one. Wishing for the active topology takes back an earlier wish."""
        if obstacle := self._obstacle():
            withdrawn = target == self._engine.active()[0] and obstacle not in ("in_flight", "pinned")
            self.pending = None if withdrawn or obstacle == "pinned" else target
            return Deferred(target, "active" if withdrawn else obstacle)
        self.pending = None
        if target == self._engine.active()[0]:
            return Deferred(target, "active")
        async with self.switch_lock:
            return await self._attempt(target)

    async def apply_deferred(self) -> SwitchResult | None:
        """Carry out the latest deferred wish if that is allowed by now; None when there is nothing to do."""
        if self.pending is None or self._obstacle():
            return None
        result = await self.request(self.pending)
        return result if isinstance(result, SwitchResult) else None

    async def relieve(self, rung: str) -> SwitchResult | Deferred | None:
        """Answer the router's pressure: on the rung ``reconfigure``, wish for the relief topology like anybody else.

        None when no relief topology is given or the rung does not call for it.
        """
        return await self.request(self._relief) if self._relief and rung == RECONFIGURE else None

    async def hold(self) -> SwitchResult | None:
        """Bring the pinned topology into force: past dwell, cooldown and probe, not past the epoch gate.

        To be awaited after every step: an attempt that was aborted is made again at the next. None when
        nothing is pinned, or it is in force already. A switch in flight is waited for.
        """
        if not self._must_hold():
            return None
        async with self.switch_lock:
            if self._pin is None or not self._must_hold():
                return None
            return await self._switch(self._pin.topology)

    def _must_hold(self) -> bool:
        pin = self._pin
        if pin is None or not pin.pinned:
            return False
        self.pending = None
        return self._engine.active()[0] != pin.topology

    def _obstacle(self) -> str:
        if self._pin is not None and self._pin.pinned:
            return "pinned"
        if self.switch_lock.locked():
            return "in_flight"
        if self._since_attempt < self._cooldown:
            return "cooldown"
        if self._since_switch < self._dwell:
            return "dwell"
        return ""

    async def _attempt(self, target: str) -> SwitchResult | Deferred:
        """Probe, then switch. An unknown target is left to the engine to refuse."""
        if self._probe is None or target not in self._engine.topologies:
            return await self._switch(target)
        try:
            probed = await self._probe.validate(target, self._probe_timeout_ms)
        finally:
            self._since_attempt = 0
        if not probed.ok:
            self.pending = self.pending or target  # a wish that came meanwhile is the later one
            return Deferred(target, "probe")
        result = await self._switch(target)
        stats = replace(
            result.stats,
            phase_ms={"probe": probed.elapsed_ms, **result.stats.phase_ms},
            total_ms=probed.elapsed_ms + result.stats.total_ms,
        )
        return replace(result, stats=stats)

    async def _switch(self, target: str) -> SwitchResult:
        origin = self._engine.active()[0]
        try:
            result = await self._engine.switch_to(target)
        finally:
            self._since_attempt = 0
        if result.ok:
            self._since_switch = 0
            self.topology_changed.set()
            if self._on_change is not None:
                self._on_change(TopologyChanged(self._episode_id, origin, target, result.epoch))
        return result
