"""Memory that runs low: warn, then unload models, the idle ones first. Decisions apart from the watch that acts on them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ..errors import ApexError, ConfigError
from ..events import Event, MemoryPressure, ModelUnloaded
from .machine import Memory, memory_now

_log = logging.getLogger(__name__)

WARN: Final = "APEX_MEMORY_WARN"
UNLOAD: Final = "APEX_MEMORY_UNLOAD"


class Pressure(StrEnum):
    """How short memory is."""

    CALM = "calm"
    WARN = "warn"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """When to warn and when to unload, as shares of memory that are free. Raises ConfigError for impossible ones."""

    warn: float = 0.10
    unload: float = 0.05
    """Below it models are unloaded: the first integer percent that is not critical. 0 never unloads."""
    relief: float = 0.02
    """So much above a limit pressure ends: memory that swings around it is told once."""
    patience: int = 3
    """Looks in a row that find nothing idle to unload, after which a call is ended."""
    interval_s: float = 1.0
    """Seconds between two looks."""

    def __post_init__(self) -> None:
        if not 0 <= self.unload <= self.warn < 1 or self.relief < 0:
            raise ConfigError(
                f"memory limits must be 0 <= unload <= warn < 1, not unload {self.unload:g}, warn {self.warn:g}"
            )
        if self.patience < 0:
            raise ConfigError(f"patience must be >= 0, not {self.patience}")
        if not 0 < self.interval_s <= 3600:
            raise ConfigError(f"seconds between two looks at memory must be in (0, 3600], not {self.interval_s:g}")


def limits_from(environ: Mapping[str, str] | None = None) -> MemoryLimits:
    """The limits, with percents from APEX_MEMORY_WARN and APEX_MEMORY_UNLOAD (0: never). Raises ConfigError."""
    found = os.environ if environ is None else environ
    usual = MemoryLimits()
    unload = percent(found[UNLOAD], UNLOAD) if found.get(UNLOAD) else usual.unload
    warn = percent(found[WARN], WARN) if found.get(WARN) else max(usual.warn, unload)
    return MemoryLimits(warn, unload)


def percent(text: str, name: str) -> float:
    """``5`` or ``5%`` as 0.05. Raises ConfigError, naming ``name``."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise ConfigError(f"{name} must be a percentage from 0 to less than 100, not {text!r}")
    return share


@dataclass(frozen=True, slots=True)
class Holder:
    """Something loaded that could be unloaded."""

    key: str
    model: str
    last_used: float
    """Seconds on any clock that all holders share."""
    calls: int = 0
    """Calls under way or waiting in it."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now."""

    pressure: Pressure
    tell: bool
    """This has not been said in this episode of pressure."""
    unload: Holder | None = None


class MemoryCare:
    """Decides; touches nothing.

    An episode of pressure begins when less than ``warn`` is free and ends when ``warn + relief`` is free again; each level is
    told once in it, and so is its end. Below ``unload`` each look unloads one: the least recently used that is idle; when
    there was none for ``patience`` looks, the least recently used of the busy ones.
    """

    def __init__(self, limits: MemoryLimits | None = None) -> None:
        self.limits = limits or MemoryLimits()
        self.pressure = Pressure.CALM
        self._told: set[Pressure] = set()
        self._nothing_idle = 0

    def look(self, free_share: float, holders: Sequence[Holder]) -> Step:
        """``free_share`` of memory is free now, and these are loaded."""
        before, self.pressure = self.pressure, self._level(free_share)
        tell = self.pressure not in self._told and self.pressure is not Pressure.CALM
        if tell:
            self._told.add(self.pressure)
        elif self.pressure is Pressure.CALM and before is not Pressure.CALM:
            tell = True
            self._told.clear()
        return Step(self.pressure, tell, self._choose(free_share, holders))

    def _level(self, free: float) -> Pressure:
        limits, before = self.limits, self.pressure
        if free < limits.unload or (before is Pressure.CRITICAL and free < limits.unload + limits.relief):
            return Pressure.CRITICAL
        if free < limits.warn or (before is not Pressure.CALM and free < limits.warn + limits.relief):
            return Pressure.WARN
        return Pressure.CALM

    def _choose(self, free: float, holders: Sequence[Holder]) -> Holder | None:
        if free >= self.limits.unload or not holders:
            self._nothing_idle = 0
            return None
        idle = [h for h in holders if not h.calls]
        self._nothing_idle = 0 if idle else self._nothing_idle + 1
        if not idle and self._nothing_idle <= self.limits.patience:
            return None
        self._nothing_idle = 0
        return min(idle or holders, key=lambda h: (h.last_used, h.key))


async def read_memory() -> Memory | None:
    """``memory_now()``, off the loop."""
    return await asyncio.to_thread(memory_now)


class MemoryWatch:
    """Looks every ``interval_s`` and does what MemoryCare says. What fails is logged; the watch goes on."""

    def __init__(
        self,
        holders: Callable[[], Sequence[Holder]],
        unload: Callable[[Holder], Awaitable[None]],
        *,
        limits: MemoryLimits | None = None,
        read: Callable[[], Awaitable[Memory | None]] = read_memory,
        tell: Callable[[Event], None] = lambda event: None,
    ) -> None:
        """``holders`` says what is loaded, ``unload`` ends one, ``tell`` takes MemoryPressure and ModelUnloaded."""
        self.care = MemoryCare(limits)
        self._holders, self._unload = holders, unload
        self._read, self._tell = read, tell

    async def run(self) -> None:
        """For ever; cancel it."""
        while True:
            await self.look()
            await asyncio.sleep(self.care.limits.interval_s)

    async def look(self) -> Step | None:
        """Once; what was decided, None where memory is not told."""
        now = await self._read()
        if now is None:
            return None
        step = self.care.look(now.free_share, self._holders())
        if step.tell:
            _log.log(*_said(step.pressure, now, self.care.limits))
            self._tell(MemoryPressure("", str(step.pressure), now.free_share, now.available, now.total))
        if (chosen := step.unload) is not None:
            try:
                await self._unload(chosen)
            except (ApexError, OSError) as error:
                _log.warning("%s could not be unloaded: %s", chosen.model, error)
            else:
                ended = f"; {chosen.calls} calls under way ended" if chosen.calls else ""
                _log.warning("memory is short: %s was unloaded%s", chosen.model, ended)
                self._tell(ModelUnloaded("", chosen.model, "memory", chosen.calls))
        return step


def described(now: Memory) -> str:
    """``4.2 % of memory free (0.7 of 16.0 GB)``."""
    return f"{100 * now.free_share:.1f} % of memory free ({now.available / 1e9:.1f} of {now.total / 1e9:.1f} GB)"


def _said(pressure: Pressure, now: Memory, limits: MemoryLimits) -> tuple[int, str]:
    if pressure is Pressure.CALM:
        return logging.INFO, f"memory: {described(now)} again"
    then = f"idle models are unloaded below {100 * limits.unload:g} %" if limits.unload else "no model is unloaded"
    return logging.WARNING, f"memory: {described(now)}; {then}"
