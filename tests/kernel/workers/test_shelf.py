"""A shelf of models: never more than it may hold, none unloaded in use, everybody served; in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from apex_framework.errors import BackendError, ConfigError, Failure, ModelError
from apex_framework.events import ModelLoaded, ModelUnloaded
from apex_framework.testing.virtual_time import interleavings, run
from apex_framework.workers import Shelf

SEEDS = range(60)


@dataclass
class Room:
    """What all models of a scenario share, and what was wrong."""

    most: int
    room: int | None = None
    loaded: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)

    def look(self) -> None:
        if len(self.loaded) > self.most:
            self.wrong.append(f"{sorted(self.loaded)} at once")
        if self.room is not None and sum(self.loaded.values()) > self.room:
            self.wrong.append(f"{self.loaded} needs more than {self.room}")


@dataclass
class Model:
    """Loads and unloads in virtual time, and notices what must not happen to it."""

    name: str
    room: Room
    size: int = 1
    load_s: float = 1.0
    unload_s: float = 0.1
    calls: int = 0
    fails: int = 0

    async def warm(self) -> None:
        self.room.loaded[self.name] = self.size
        self.room.look()
        await asyncio.sleep(self.load_s)
        if self.fails:
            self.fails -= 1
            raise BackendError("no", kind=Failure.NOT_FOUND)
        self.room.history.append(self.name)

    async def unload(self) -> None:
        if self.calls:
            self.room.wrong.append(f"{self.name} was unloaded under {self.calls} calls")
        await asyncio.sleep(self.unload_s)
        self.room.loaded.pop(self.name, None)

    async def call(self, shelf: Shelf, seconds: float) -> None:
        async with shelf.use(self.name):
            if self.name not in self.room.loaded:
                self.room.wrong.append(f"{self.name} was called and not loaded")
            self.calls += 1
            try:
                await asyncio.sleep(seconds)
            finally:
                self.calls -= 1


def clock() -> float:
    """The running loop's."""
    return asyncio.get_running_loop().time()


def shelf_of(room: Room, *models: Model, kind: Callable[..., Shelf] = Shelf, **options: Any) -> Shelf:
    shelf = kind(room.most, memory_bytes=room.room, clock=clock, **options)
    for model in models:
        shelf.add(model.name, model, model.size)
    return shelf


async def crowd(seed: int, kind: Callable[..., Shelf] = Shelf) -> None:
    """Callers of several models, some of whom give up, some loads of which fail: the invariants hold, all are served."""
    chance = random.Random(seed)
    count = chance.randint(2, 5)
    sized = chance.random() < 0.4
    room = Room(chance.randint(1, 3), chance.choice([None, 6]) if sized else None)
    models = [
        Model(
            f"m{n}",
            room,
            chance.randint(1, 5) if sized else 1,
            chance.choice([0.0, 0.5, 2.0]),
            fails=chance.random() < 0.2,
        )
        for n in range(count)
    ]
    shelf = shelf_of(room, *models, kind=kind, stay=chance.choice([0.0, 1.0]))
    served = given_up = failed = 0

    async def caller(n: int) -> None:
        nonlocal served, given_up, failed
        await asyncio.sleep(chance.random() * 10)
        patience = chance.choice([None, None, None, 1.5])
        try:
            async with asyncio.timeout(patience):
                await chance.choice(models).call(shelf, chance.random() * 2)
            served += 1
        except TimeoutError:
            given_up += 1
        except BackendError:
            failed += 1

    callers = 40
    async with asyncio.timeout(10_000), asyncio.TaskGroup() as group:
        for n in range(callers):
            group.create_task(caller(n))
    assert room.wrong == []
    assert served + given_up + failed == callers and failed <= count
    assert set(room.loaded) <= set(shelf.resident), "what may be in memory has a place"
    assert shelf.stats.most_resident <= room.most
    for model in models:
        await model.call(shelf, 0.1)  # and the shelf is sound afterwards
    assert room.wrong == []


def test_never_more_than_it_holds_none_in_use_unloaded_and_everybody_is_served() -> None:
    interleavings(crowd, SEEDS)


async def endless(seed: int, kind: Callable[..., Shelf] = Shelf) -> None:
    """One model is asked without a pause by three; another caller's turn comes all the same."""
    room = Room(1)
    busy, rare = Model("busy", room), Model("rare", room)
    shelf = shelf_of(room, busy, rare, kind=kind)
    over = asyncio.Event()

    async def again() -> None:
        while not over.is_set():
            await busy.call(shelf, 1.0)

    async with asyncio.TaskGroup() as group:
        for n in range(3):
            await asyncio.sleep(0.3 * n)
            group.create_task(again())
        try:
            async with asyncio.timeout(60):
                await rare.call(shelf, 1.0)
        except TimeoutError:
            raise AssertionError("never served") from None
        finally:
            over.set()
    assert room.wrong == []


def test_nobody_starves_behind_a_model_that_is_always_in_use() -> None:
    interleavings(endless, range(20))


async def alternating(kind: Callable[..., Shelf] = Shelf) -> float:
    """Two crowds of short calls and one place: the share of time that goes into loading."""
    room = Room(1)
    models = [Model("a", room, load_s=5.0, unload_s=0.0), Model("b", room, load_s=5.0, unload_s=0.0)]
    shelf = shelf_of(room, *models, kind=kind)

    async def many(model: Model) -> None:
        for _ in range(100):
            await model.call(shelf, 0.1)

    async with asyncio.TaskGroup() as group:
        for model in models:
            for _ in range(4):
                group.create_task(many(model))
    assert room.wrong == []
    return shelf.stats.loads * 5.0 / clock()


def test_loading_takes_at_most_about_half_of_the_time() -> None:
    assert run(alternating()) <= 0.55


def test_what_is_worth_least_goes() -> None:
    async def main() -> None:
        room = Room(2)
        often, dear, rare = Model("often", room), Model("dear", room, load_s=30.0), Model("rare", room)
        shelf = shelf_of(room, often, dear, rare)
        for _ in range(10):
            await often.call(shelf, 1.0)
        await dear.call(shelf, 1.0)
        await asyncio.sleep(100)
        await rare.call(shelf, 1.0)
        assert set(shelf.resident) == {"dear", "rare"}, "one use of 30 s to load outweighs ten of one second"
        for _ in range(8):
            await asyncio.sleep(300)
            await rare.call(shelf, 1.0)
        await often.call(shelf, 1.0)
        assert set(shelf.resident) == {"rare", "often"}, "uses of long ago count for less and less"

    run(main())


def test_under_an_allowance_as_many_go_as_must_and_no_more() -> None:
    async def main() -> None:
        room = Room(9, room=10)
        small, middle, large = Model("small", room, 2), Model("middle", room, 5), Model("large", room, 8)
        shelf = shelf_of(room, small, middle, large)
        await small.call(shelf, 2.0)
        await middle.call(shelf, 2.0)
        await large.call(shelf, 2.0)
        assert set(shelf.resident) == {"small", "large"}
        await middle.call(shelf, 2.0)
        assert set(shelf.resident) == {"small", "middle"}
        assert room.wrong == []

    run(main())


def test_a_load_that_fails_is_the_callers_error_and_leaves_no_place_taken() -> None:
    async def main() -> None:
        room = Room(1)
        broken, sound = Model("broken", room, fails=1), Model("sound", room)
        shelf = shelf_of(room, broken, sound)
        with pytest.raises(BackendError):
            await broken.call(shelf, 1.0)
        assert not shelf.resident and room.loaded == {}
        await sound.call(shelf, 1.0)
        await broken.call(shelf, 1.0)
        assert shelf.resident == ("broken",)

    run(main())


def test_what_happened_is_told_once() -> None:
    async def main() -> None:
        room = Room(1)
        a, b = Model("a", room, load_s=2.0, unload_s=0.5), Model("b", room, load_s=3.0)
        shelf = shelf_of(room, a, b, stay=0.0)
        await a.call(shelf, 1.0)
        await b.call(shelf, 1.0)
        assert shelf.drain_events() == [
            ModelLoaded("", "a", 2000.0, 0.0, 1),
            ModelUnloaded("", "a", "rotation", 0, 0),
            ModelLoaded("", "b", 3500.0, 0.0, 1),
        ]
        assert shelf.drain_events() == []

    run(main())


def test_a_shelf_serves_one_loop_after_the_other() -> None:
    room = Room(1)
    models = [Model("a", room, load_s=0.0, unload_s=0.0), Model("b", room, load_s=0.0, unload_s=0.0)]
    shelf = Shelf(1)
    for model in models:
        shelf.add(model.name, model)

    async def abandoned() -> None:
        async with asyncio.timeout(0.02):
            async with shelf.use("a"):
                await models[1].call(shelf, 0.0)  # one waits for another while it holds one: the rule that it breaks

    for _ in range(3):
        with pytest.raises(TimeoutError):
            asyncio.run(abandoned())
        asyncio.run(models[1].call(shelf, 0.0))
        asyncio.run(models[0].call(shelf, 0.0))
    assert room.wrong == [] and shelf.resident == ("a",)


def test_impossible_shelves_and_models_are_refused() -> None:
    for most in (0, -1, True, 1.5, None):
        with pytest.raises(ConfigError, match="integer >= 1"):
            Shelf(most)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ConfigError):
        Shelf(stay=float("nan"))
    with pytest.raises(ConfigError):
        Shelf(memory_bytes=0)
    shelf = Shelf(memory_bytes=5_000_000_000)
    room = Room(1)
    with pytest.raises(ModelError, match=r"large needs 8\.0 GB, and all models together may have 5\.0 GB"):
        shelf.add("large", Model("large", room), 8_000_000_000)
    shelf.add("small", Model("small", room))
    with pytest.raises(ConfigError, match="on the shelf already"):
        shelf.add("small", Model("small", room))


# --- planted bugs ---------------------------------------------------------------------------------


class Forgetful(Shelf):
    """Counts only what is loaded, not what is being loaded."""

    def _here(self) -> list[Any]:
        return [p for p in super()._here() if p.state.name == "IN"]


class Careless(Shelf):
    """Unloads models in use."""

    def _victims(self, place: Any, *, idle: bool) -> Any:
        return super()._victims(place, idle=False)


class Unfair(Shelf):
    """Gives a loaded model's callers their turn whoever waits for room."""

    def _victims(self, place: Any, *, idle: bool) -> Any:
        return super()._victims(place, idle=True) if idle else None


class Nervous(Shelf):
    """Unloads a model as soon as it is idle."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "stay": 0.0})


class Leaky(Shelf):
    """Does not give back the place of one who gave up."""

    def _undo(self, place: Any, victims: Any) -> None:
        pass


@pytest.mark.parametrize("kind", [Forgetful, Careless, Leaky])
def test_a_shelf_that_breaks_a_promise_is_caught(kind: type[Shelf]) -> None:
    with pytest.raises((AssertionError, ExceptionGroup, TimeoutError, RuntimeError)):
        interleavings(lambda seed: crowd(seed, kind), SEEDS)


def test_an_unfair_shelf_is_caught() -> None:
    with pytest.raises((AssertionError, ExceptionGroup)):
        interleavings(lambda seed: endless(seed, Unfair), range(20))


def test_thrashing_is_caught() -> None:
    assert run(alternating(Nervous)) > 0.55
