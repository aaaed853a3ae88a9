"""The switches of a simulated life: ordered from the engine, or wished for by way of coordinator, probe and pin."""

from __future__ import annotations

import asyncio
import random

from ..interfaces import Roster
from ..runtime.coordinator import Coordinator, Deferred
from ..runtime.pinning import HealthPin
from ..runtime.router import Router
from ..runtime.switch import SwitchEngine, SwitchResult
from .character import Character, Parts
from .faults import Faults
from .router_model import RouterModel


class Switching:
    """The part of a life that decides; what it needs of the rest is declared here."""

    parts: Parts
    character: Character
    faults: Faults
    rng: random.Random
    router: Router
    engine: SwitchEngine
    coordinator: Coordinator
    pin: HealthPin | None
    model: RouterModel
    stopping: bool
    switches: int
    cancelled: int
    deferred: int
    reasons: dict[str, int]
    _slow: list[bool]
    _since_attempt: int
    _since_commit: int
    _attempted: bool

    def blame(self, kind: str, what: str) -> None:
        """Count a violation; the world that mixes this in says where."""

    async def _warm(self) -> None:
        if self.faults.strikes("second_switch", 0.1):
            try:
                await self.engine.switch_to(self.character.first)
                self.blame("one_switch", "a second switch was let in while one is in flight")
            except RuntimeError:
                pass
        if self.faults.strikes("warm_up_fails", 0.05):
            raise RuntimeError("the model is not there")
        await asyncio.sleep(10.0 if self.faults.strikes("warm_up_hangs", 0.05) else 0.001 * self.rng.random())

    async def _ready(self) -> bool:
        if self.faults.strikes("sick_agent", 0.3):
            if self.rng.random() < 0.5:
                return False
            await asyncio.sleep(1.0)
        return True

    async def _decide(self) -> None:
        rng, faults = self.rng, self.faults
        while not self.stopping:
            await asyncio.sleep(rng.random() * 0.03 if rng.random() < 0.7 else 0.0)
            target = rng.choice(sorted(self.parts.topologies))
            if faults.strikes("unknown_target", 0.05):
                target = "nowhere"
            limit = rng.random() * 0.01 if faults.strikes("cancel_switch", 0.1) else None
            self.switches += 1
            try:
                async with asyncio.timeout(limit):
                    await (self._wish(target) if self.character.coordinated else self._order(target))
            except TimeoutError:
                self.cancelled += 1
        if self.pin is not None:
            await self._heal_pin(self.pin)

    async def _order(self, target: str) -> None:
        """A switch, straight at the engine."""
        roster = None
        if self.faults.strikes("agent_gone", 0.15):
            ids = self.character.roster.members
            gone = self.rng.choice(ids[1:])
            roster = Roster(tuple(m for m in ids if m != gone), self.character.roster.lead)
            if len(roster.members) < 2:
                roster = None
        elif self.rng.random() < 0.3 and "agent_gone" in self.faults.enabled:
            roster = self.character.roster
        before = self.model.epoch
        self._judge(target, before, await self.engine.switch_to(target, roster))

    async def _wish(self, target: str) -> None:
        """A wish, by way of the coordinator and the pin."""
        if self.pin is not None:
            slow = self.faults.strikes("controller_slow", 0.4)
            was, self._slow = self.pin.pinned, [*self._slow, slow][-5:]
            self.pin.decided(20.0 if slow else 1.0)
            if not was and self.pin.pinned != (len(self._slow) == 5 and any(self._slow)):
                self.blame("pin", f"pinned is {self.pin.pinned} after slow decisions {self._slow}")
            if was != self.pin.pinned:
                self._slow = []
            await self._hold()
        pinned = self.pin is not None and self.pin.pinned
        since_attempt, since_commit, attempted = self._since_attempt, self._since_commit, self._attempted
        before = self.model.epoch
        if self.rng.random() < 0.5:
            answer: SwitchResult | Deferred | None = await self.coordinator.request(target)
        else:
            answer = await self.coordinator.apply_deferred()
        if isinstance(answer, SwitchResult):
            if pinned:
                self.blame("pin", f"a wish for {answer.target} was carried out while pinned")
            if since_commit < 2 or (attempted and since_attempt < 2):
                self.blame("dwell", f"switched {since_attempt} steps after an attempt, {since_commit} after a commit")
            self._judge(answer.target, before, answer)
        elif isinstance(answer, Deferred):
            self.deferred += 1
            if pinned != (answer.reason == "pinned"):
                self.blame("pin", f"pinned is {pinned}, the wish was answered {answer.reason}")

    async def _hold(self) -> None:
        before = self.model.epoch
        result = await self.coordinator.hold()
        if result is not None:
            self._judge(result.target, before, result)
        pin, active = self.pin, self.router.table.name
        if pin is not None and pin.pinned and (result is None or result.ok) and active != pin.topology:
            self.blame("pin", f"pinned to {pin.topology}, {active} is in force")

    async def _heal_pin(self, pin: HealthPin) -> None:
        """Fast decisions unpin, after as many windows as were agreed."""
        for _ in range(10):
            if pin.pinned:
                await self._hold()
            for _ in range(5):
                pin.decided(1.0)
        if pin.pinned:
            self.blame("liveness", "ten healthy windows, and still pinned")

    def _judge(self, target: str, before: int, result: SwitchResult) -> None:
        name, epoch = self.engine.active()
        if result.ok:
            sound = result.epoch == before + 1 == epoch and result.target == target == name and not result.reason
        else:
            sound = result.epoch == before == epoch and bool(result.reason)
            self.reasons[str(result.reason)] = self.reasons.get(str(result.reason), 0) + 1
        if result.ok and self.character.on_busy == "drain" and result.stats.migrated:
            self.blame("result", f"{result.stats.migrated} messages were migrated by a switch that drains")
        if not sound:
            self.blame("result", f"{result} after epoch {before}, in force is {name} in epoch {epoch}")
