"""Several models in real processes, and room for one: through the LLM service, from the budget to the metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from worker_backends import MADE, alive, held, make

from apex_framework.budget import Guard, Ledger
from apex_framework.errors import BackendError, Failure
from apex_framework.events import Event, ModelLoaded, ModelUnloaded
from apex_framework.interfaces import CallTags, Denied, Limits, LLMRequest, LLMResult, LLMStatus
from apex_framework.ports import SystemClock
from apex_framework.services import LLMService
from apex_framework.telemetry.meters import EventMeter
from apex_framework.telemetry.registry import Registry
from apex_framework.testing.llm import check_llm_backend
from apex_framework.testing.scripted import ScriptedBackend
from apex_framework.workers import Shelf, ShelvedBackend, WorkerBackend, shelved


class Roomy:
    """A ceiling that nobody reaches."""

    name = "episode"
    parent = None

    def key(self, tags: CallTags) -> str:
        return tags.episode_id

    def limits(self, tags: CallTags) -> Limits:
        return Limits(1_000_000)


def on(shelf: Shelf, name: str, backend: WorkerBackend) -> ShelvedBackend:
    put = shelved(shelf, name, backend)
    assert isinstance(put, ShelvedBackend)
    return put


def processes(*backends: ShelvedBackend) -> int:
    return sum(len(backend.processes) for backend in backends)


@pytest.mark.slow
def test_the_kit_passes_on_a_shelf() -> None:
    check_llm_backend(lambda: on(Shelf(1), "words", make()))


def check_two_roles(make_shelf: type[Shelf] = Shelf) -> None:
    """Two roles ask their models at once and in turn: never two models in memory, every call answered as by its model alone."""

    async def main() -> None:
        shelf = make_shelf(1, stay=0.0)
        coder = on(shelf, "coder", make(token_s=0.002))
        critic = on(shelf, "critic", make(token_s=0.002))
        told: list[Event] = []
        service = LLMService(
            {"coder": coder, "critic": critic},
            Guard(Ledger(), [Roomy()], clock=SystemClock()),
            clock=SystemClock(),
            on_event=told.append,
        )
        most = 0
        over = asyncio.Event()

        async def look() -> None:
            nonlocal most
            while not over.is_set():
                most = max(most, processes(coder, critic))
                await asyncio.sleep(0.002)

        watching = asyncio.create_task(look())

        async def ask(role: str, n: int) -> LLMResult | Denied:
            tags = CallTags("run", "episode", role, role, 1_000_000)
            return await service.ask(tags, f"{role} {n}", max_tokens=20)

        answers = await asyncio.gather(*(ask(role, n) for n in range(4) for role in ("coder", "critic")))
        for role in ("coder", "critic", "coder"):
            answers.append(await ask(role, 9))
        over.set()
        await watching
        assert most == 1, "two models at once"
        assert all(isinstance(a, LLMResult) and a.status is LLMStatus.LENGTH and a.tokens_out == 20 for a in answers)
        registry = Registry()
        for event in coder.drain_events():
            EventMeter(registry)(event)
        found = {(s.name, *dict(s.labels).values()): s for s in registry.snapshot()}
        loads = found["model_loads_total", "coder"].value + found["model_loads_total", "critic"].value
        assert loads == shelf.stats.loads and found["model_switch_ms",].count == loads
        evictions = sum(s.value for key, s in found.items() if key[0] == "model_evictions_total")
        assert evictions == shelf.stats.evictions == loads - 1 and found["models_resident",].value == 1
        await service.close()
        assert processes(coder, critic) == 0

    before = held()[2]
    asyncio.run(main())
    assert held()[2] == before, "a process is left"


def test_roles_with_models_of_their_own_take_turns_where_there_is_room_for_one() -> None:
    check_two_roles()


def test_two_models_at_once_are_caught() -> None:
    class Wide(Shelf):
        """The planted bug: one more than it may."""

        def _fits(self, place: object, here: object, without: object) -> bool:
            return True

    with pytest.raises(AssertionError, match="two models at once"):
        check_two_roles(Wide)


def test_a_cancelled_call_gives_its_turn_back() -> None:
    async def main() -> None:
        shelf = Shelf(1, stay=0.0)
        slow, quick = on(shelf, "slow", make(token_s=0.05)), on(shelf, "quick", make())
        stream = slow.stream(LLMRequest("hello", 1000))
        assert (await anext(stream)).text
        waiting = asyncio.create_task(quick.generate(LLMRequest("hello", 3)))
        await asyncio.sleep(0.05)
        assert not waiting.done() and not quick.processes
        await stream.aclose()  # type: ignore[attr-defined]  # an asynchronous generator
        assert (await waiting).tokens_out == 3
        assert not slow.processes and quick.processes

    asyncio.run(main())


def test_a_crash_and_a_model_that_cannot_be_loaded_leave_the_others_their_turn(tmp_path: Path) -> None:
    async def main() -> None:
        shelf = Shelf(1, stay=0.0)
        crashes = on(shelf, "crashes", make(crash_after=3, once=str(tmp_path / "once")))
        refuses, sound = on(shelf, "refuses", make(load="refuse")), on(shelf, "sound", make())
        with pytest.raises(BackendError) as caught:
            await crashes.generate(LLMRequest("hello", 9))
        assert caught.value.kind is Failure.WORKER_DIED
        with pytest.raises(BackendError, match="no weights"):
            await refuses.generate(LLMRequest("hello", 9))
        assert shelf.resident == () and not crashes.processes
        assert (await sound.generate(LLMRequest("hello", 9))).tokens_out == 9
        assert (await crashes.generate(LLMRequest("hello", 9))).tokens_out == 9

    asyncio.run(main())


def test_loops_one_after_the_other_and_counting_without_a_turn() -> None:
    shelf = Shelf(1, stay=0.0)
    a, b = on(shelf, "a", make()), on(shelf, "b", make())
    for backend in (a, b, a):
        asyncio.run(backend.generate(LLMRequest("hello", 2)))
        assert shelf.resident == (("a",) if backend is a else ("b",))
    (pid,) = a.processes
    assert b.count_tokens("three short words") == 3 and b.processes == () and alive(pid)
    names = [(type(e), getattr(e, "model", "")) for e in a.drain_events()]
    assert names == [
        (ModelLoaded, "a"),
        (ModelUnloaded, "a"),
        (ModelLoaded, "b"),
        (ModelUnloaded, "b"),
        (ModelLoaded, "a"),
    ]
    asyncio.run(a.close())
    assert shelf.resident == () and not alive(pid)
    asyncio.run(b.generate(LLMRequest("hello", 2)))


def test_only_models_that_are_loaded_here_are_shelved() -> None:
    server = ScriptedBackend("anything")
    assert shelved(Shelf(1), "scripted", server) is server
    backend = make()
    assert shelved(None, "words", backend) is backend
    shelf = Shelf(1)
    shelved(shelf, "words", backend), shelved(shelf, "words", make())
    assert shelf.names == ("words", "words#2")
    assert len(MADE) == 2
