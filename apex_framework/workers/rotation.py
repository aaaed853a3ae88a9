"""Several models, and room for fewer: which of them are loaded, and who has to wait."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from ..errors import ConfigError, ModelError
from ..events import Event, ModelLoaded, ModelUnloaded

_log = logging.getLogger(__name__)

MOST_EVENTS: Final = 1000
LEAST_PAUSE_S: Final = 0.001


class Shelvable(Protocol):
    """What can be put on a shelf: ``Warms`` and ``Unloads``."""

    async def warm(self) -> None:
        """Load. Raises BackendError, ModelError."""
        ...

    async def unload(self) -> None:
        """Give the memory free. Raises BackendError."""
        ...


class _State(Enum):
    OUT = auto()
    COMING = auto()
    IN = auto()
    LEAVING = auto()


@dataclass(eq=False, slots=True)
class _Place:
    name: str
    model: Shelvable
    size: int
    state: _State = _State.OUT
    calls: int = 0
    uses: float = 0.0
    """Calls so far, each worth half as much after every half-life."""
    used_at: float = 0.0
    loaded_at: float = 0.0
    load_s: float = 0.0


@dataclass(eq=False, slots=True)
class _Waiter:
    place: _Place
    turn: asyncio.Future[tuple[_Place, ...] | None]
    """None: the model is there. Otherwise it is this one's to load, after unloading those."""


@dataclass(slots=True)
class ShelfStats:
    """Plain counters."""

    loads: int = 0
    evictions: int = 0
    most_resident: int = 0


class Shelf:
    """At most ``most`` models at once, and within ``memory_bytes`` where sizes are known; for one event loop after the other.

    A call for a model that is not loaded waits in line; who is first in line unloads what must go, and loads. What must go is
    what is worth least: uses, halved every ``half_life_s``, times the seconds that loading it took (and per byte, under a
    memory allowance), the measure of GreedyDual-Size-Frequency (Cherkasova 1998) with decay in place of its inflation. A model
    with a call under way is never unloaded: where all have some, the least worth gets no new ones until it has none. A model
    stays at least ``stay`` times as long as it took to load: with 1.0 at most half of the time goes into loading, as in the ski
    rental problem. Nobody may wait for one model while holding another.
    """

    def __init__(
        self,
        most: int = 1,
        *,
        memory_bytes: int | None = None,
        stay: float = 1.0,
        half_life_s: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ConfigError."""
        if type(most) is not int or most < 1:
            raise ConfigError(f"the number of models that stay loaded must be an integer >= 1, not {most!r}")
        if not stay >= 0 or not half_life_s > 0 or (memory_bytes is not None and memory_bytes < 1):
            raise ConfigError("stay must be >= 0, and half_life_s and memory_bytes more than 0")
        self.most, self.memory_bytes = most, memory_bytes
        self._stay, self._half_life_s, self._clock = stay, half_life_s, clock
        self._places: dict[str, _Place] = {}
        self._waiting: list[_Waiter] = []
        self._timer: asyncio.TimerHandle | None = None
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self.stats = ShelfStats()

    def add(self, name: str, model: Shelvable, size: int = 0) -> None:
        """A model that may be asked for; it is not loaded yet. ``size`` in bytes, 0 when it is not known.

        Raises ConfigError for a name that is taken, ModelError for a model that can never fit.
        """
        if name in self._places:
            raise ConfigError(f"a model {name!r} is on the shelf already")
        if self.memory_bytes is not None and size > self.memory_bytes:
            cause = (
                f"{name} needs {size / 1e9:.1f} GB, and all models together may have {self.memory_bytes / 1e9:.1f} GB"
            )
            raise ModelError(cause, "take a smaller quantisation, or allow more memory")
        self._places[name] = _Place(name, model, size)

    @property
    def names(self) -> tuple[str, ...]:
        """Models that may be asked for."""
        return tuple(self._places)

    @property
    def resident(self) -> tuple[str, ...]:
        """Models that may be in memory now: loaded, or being loaded or unloaded."""
        return tuple(p.name for p in self._here())

    def _loaded(self) -> int:
        """Models that are loaded, those that are about to go included."""
        return sum(p.state in (_State.IN, _State.LEAVING) for p in self._places.values())

    @contextlib.asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[None]:
        """The model is loaded, and stays so within. Raises what loading and unloading raise; KeyError for a strange name."""
        place = self._places[name]
        began = self._clock()
        victims = await self._turn(place)
        if victims is not None:
            await self._switch(place, victims, began)
        try:
            yield
        finally:
            place.calls -= 1
            self._serve()

    def release(self, name: str) -> None:
        """The model was closed by its owner: it holds no place any more."""
        place = self._places[name]
        if place.state is _State.IN and not place.calls:
            place.state = _State.OUT

    def drain_events(self) -> Sequence[Event]:
        """Loads and evictions since it was last asked."""
        told = list(self._events)
        self._events.clear()
        return told

    # --- whose turn it is -----------------------------------------------------------------------

    async def _turn(self, place: _Place) -> tuple[_Place, ...] | None:
        waiter = _Waiter(place, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._serve()
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif (victims := waiter.turn.result()) is None:
                place.calls -= 1
            else:
                self._undo(place, victims)
            self._serve()
            raise

    def _serve(self) -> None:
        """Give everybody a turn who can have one, in the order in which they came."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        drained: set[_Place] = set()
        stuck = False
        for waiter in list(self._waiting):
            place = waiter.place
            if waiter.turn.done():  # cancelled; it will take itself out
                continue
            if place.state is _State.IN and place not in drained:
                self._begin(place)
                self._grant(waiter, None)
            elif place.state is _State.OUT and not stuck:
                victims = self._victims(place, idle=True)
                if victims is None:
                    stuck = True  # whoever comes later may not overtake with a model that needs room, too
                    drained.update(self._victims(place, idle=False) or ())
                    self._serve_later()
                else:
                    for victim in victims:
                        victim.state = _State.LEAVING
                    place.state = _State.COMING
                    self._grant(waiter, victims)

    def _grant(self, waiter: _Waiter, victims: tuple[_Place, ...] | None) -> None:
        self._waiting.remove(waiter)
        waiter.turn.set_result(victims)

    def _begin(self, place: _Place) -> None:
        now = self._clock()
        place.uses, place.used_at = self._uses(place, now) + 1.0, now
        place.calls += 1

    def _serve_later(self) -> None:
        """Again when the next model has stayed for long enough."""
        now = self._clock()
        ends = [p.loaded_at + self._stay * p.load_s for p in self._here() if p.state is _State.IN]
        if ahead := [end - now for end in ends if end > now]:
            self._timer = asyncio.get_running_loop().call_later(max(min(ahead), LEAST_PAUSE_S), self._serve)

    # --- who has to go --------------------------------------------------------------------------

    def _here(self) -> list[_Place]:
        return [p for p in self._places.values() if p.state is not _State.OUT]

    def _victims(self, place: _Place, *, idle: bool) -> tuple[_Place, ...] | None:
        """Whom to unload for it, the least worth first and no more than needed; None when those do not do."""
        now, here = self._clock(), self._here()
        can_go = [
            p
            for p in here
            if p.state is _State.IN and not (idle and p.calls) and now >= p.loaded_at + self._stay * p.load_s
        ]
        chosen: list[_Place] = []
        for candidate in sorted(can_go, key=lambda p: (self._worth(p, now), p.name)):
            if self._fits(place, here, chosen):
                break
            chosen.append(candidate)
        if not self._fits(place, here, chosen):
            return None
        for one in list(chosen):
            fewer = [p for p in chosen if p is not one]
            if self._fits(place, here, fewer):
                chosen = fewer
        return tuple(chosen)

    def _fits(self, place: _Place, here: Iterable[_Place], without: Sequence[_Place]) -> bool:
        stay = [p for p in here if p not in without]
        if len(stay) >= self.most:
            return False
        return self.memory_bytes is None or place.size + sum(p.size for p in stay) <= self.memory_bytes

    def _uses(self, place: _Place, now: float) -> float:
        return float(place.uses * 0.5 ** ((now - place.used_at) / self._half_life_s))

    def _worth(self, place: _Place, now: float) -> float:
        worth = self._uses(place, now) * place.load_s
        return worth / max(1, place.size) if self.memory_bytes is not None else worth

    # --- switching ------------------------------------------------------------------------------

    async def _switch(self, place: _Place, victims: tuple[_Place, ...], began: float) -> None:
        """Unload those, load this and begin a call of it; whatever happens, what may be in memory keeps its place."""
        started = self._clock()
        try:
            for victim in victims:
                await victim.model.unload()
                victim.state = _State.OUT
                self.stats.evictions += 1
                self._events.append(ModelUnloaded("", victim.name, "rotation", 0, self._loaded()))
            await self._load(place)
        finally:
            self._undo(place, victims)
            self._serve()
        switched_ms = (self._clock() - started) * 1000
        self.stats.loads += 1
        self.stats.most_resident = max(self.stats.most_resident, self._loaded())
        self._events.append(ModelLoaded("", place.name, switched_ms, (started - began) * 1000, self._loaded()))
        _log.info("%s is loaded, after %.0f ms", place.name, switched_ms)

    async def _load(self, place: _Place) -> None:
        began = self._clock()
        try:
            await place.model.warm()
        except asyncio.CancelledError:
            self._settle(place, began)  # a part of it may be in memory
            raise
        except Exception:  # it is raised again; what was loaded is given free before
            try:
                await place.model.unload()
            except BaseException:
                self._settle(place, began)
                raise
            raise
        self._settle(place, began)
        self._begin(place)

    def _settle(self, place: _Place, began: float) -> None:
        place.loaded_at = self._clock()
        place.load_s = place.loaded_at - began
        place.state = _State.IN

    def _undo(self, place: _Place, victims: Iterable[_Place]) -> None:
        """What neither came nor went is where it was."""
        for victim in victims:
            if victim.state is _State.LEAVING:
                victim.state = _State.IN
        if place.state is _State.COMING:
            place.state = _State.OUT
