"""What is done when memory runs low: told once, the idle unloaded first, calls ended last and never without a word."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worker_backends import alive, make, until

from apex_framework.errors import BackendError, ConfigError, Failure
from apex_framework.events import MemoryPressure, ModelUnloaded
from apex_framework.interfaces import LLMRequest, TellsEvents, Unloads
from apex_framework.testing.virtual_time import run
from apex_framework.workers import Holder, Memory, MemoryCare, MemoryLimits, MemoryWatch, Pressure, memory_now
from apex_framework.workers.machine import from_vm_stat
from apex_framework.workers.memory import Step, limits_from, percent

GB = 10**9
FAST = MemoryLimits(interval_s=0.02, patience=2)

looks = st.lists(
    st.tuples(st.floats(0, 0.2), st.lists(st.tuples(st.integers(0, 99), st.integers(0, 2)), max_size=4)), max_size=40
)


def holders_of(told: Sequence[tuple[float, int]]) -> list[Holder]:
    return [Holder(f"i{n}", "m", last, calls) for n, (last, calls) in enumerate(told)]


def check_decisions(free: Sequence[float], held: Sequence[Sequence[tuple[float, int]]], care: MemoryCare) -> None:
    """Properties of a series of looks."""
    limits, told, busy_looks = care.limits, set[Pressure](), 0
    for share, now in zip(free, held, strict=False):
        holders = holders_of(now)
        step = care.look(share, holders)
        if share >= limits.unload:
            assert step.unload is None, "nothing is unloaded while enough is free"
        else:
            assert step.pressure is Pressure.CRITICAL
        if share >= limits.warn + limits.relief:
            assert step.pressure is Pressure.CALM
        if step.tell:
            assert step.pressure not in told, "told once in an episode of pressure"
            told.add(step.pressure)
        if step.pressure is Pressure.CALM:
            told.clear()
        else:
            assert step.pressure in told, "what is, was told"
        idle = [h for h in holders if not h.calls]
        busy_looks = busy_looks + 1 if share < limits.unload and holders and not idle else 0
        if (chosen := step.unload) is not None:
            among = idle or holders
            assert chosen.last_used == min(h.last_used for h in among), "the least recently used"
            if chosen.calls:
                assert busy_looks == limits.patience + 1, "a call is ended only when nothing else helped for so long"
                busy_looks = 0
        elif share < limits.unload and idle:
            raise AssertionError("an idle model stays although memory is short")


@given(looks)
@settings(max_examples=100, deadline=None)
def test_decisions_hold_what_they_promise(series: list[tuple[float, list[tuple[float, int]]]]) -> None:
    check_decisions([free for free, _ in series], [held for _, held in series], MemoryCare(MemoryLimits(patience=2)))


def test_memory_that_swings_around_a_limit_is_told_once() -> None:
    care = MemoryCare()
    told = [care.look(share, []).tell for share in (0.5, 0.099, 0.101, 0.099, 0.101, 0.049, 0.051, 0.049, 0.08, 0.13)]
    assert told == [False, True, False, False, False, True, False, False, False, True]
    assert care.look(0.09, []).tell, "another episode of pressure"


# --- planted bugs: decisions ----------------------------------------------------------------------


class Chatty(MemoryCare):
    """Tells every look."""

    def look(self, free_share: float, holders: Sequence[Holder]) -> Step:
        step = super().look(free_share, holders)
        return Step(step.pressure, step.pressure is not Pressure.CALM, step.unload)


class Rash(MemoryCare):
    """Takes whatever was used last, busy or not."""

    def _choose(self, free: float, holders: Sequence[Holder]) -> Holder | None:
        return min(holders, key=lambda h: h.last_used, default=None) if free < self.limits.unload else None


class Meek(MemoryCare):
    """Never unloads."""

    def _choose(self, free: float, holders: Sequence[Holder]) -> Holder | None:
        return None


class Newest(MemoryCare):
    """Takes the most recently used."""

    def _choose(self, free: float, holders: Sequence[Holder]) -> Holder | None:
        turned = [Holder(h.key, h.model, -h.last_used, h.calls) for h in holders]
        chosen = super()._choose(free, turned)
        return None if chosen is None else next(h for h in holders if h.key == chosen.key)


@pytest.mark.parametrize("kind", [Chatty, Rash, Meek, Newest])
def test_care_that_breaks_a_promise_is_caught(kind: type[MemoryCare]) -> None:
    with pytest.raises(AssertionError):
        for free in (0.2, 0.04, 0.03, 0.02):
            held = [[(2.0, 0), (1.0, 1), (3.0, 0)]] * 4
            check_decisions([0.2, 0.04, 0.04, free], held, kind(MemoryLimits(patience=2)))


# --- the watch ------------------------------------------------------------------------------------


def test_the_watch_looks_at_its_interval_and_outlives_what_fails() -> None:
    async def main() -> None:
        looks: list[float] = []
        told: list[object] = []
        held = [Holder("a", "m", 1.0), Holder("b", "m", 2.0)]

        async def read() -> Memory | None:
            looks.append(asyncio.get_running_loop().time())
            return Memory(3, 100) if len(looks) != 2 else None

        async def unload(holder: Holder) -> None:
            if len(looks) == 1:
                raise BackendError("not now")
            held.remove(holder)

        watch = MemoryWatch(lambda: held, unload, limits=MemoryLimits(interval_s=5.0), read=read, tell=told.append)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(16.0):
                await watch.run()
        assert looks == [0.0, 5.0, 10.0, 15.0] and held == []
        unloaded = ModelUnloaded("", "m", "memory")
        assert told == [MemoryPressure("", "critical", 0.03, 3, 100), unloaded, unloaded]

    run(main())


class Gauge:
    """Memory as a test wants it."""

    def __init__(self, share: float = 0.5) -> None:
        self.share = share

    async def __call__(self) -> Memory:
        return Memory(int(self.share * 100 * GB), 100 * GB)


def watched(gauge: Gauge, **options: Any) -> Any:
    return make(memory=FAST, read_memory=gauge, **options)


def test_an_idle_model_is_unloaded_and_the_next_call_loads_it_again() -> None:
    async def main() -> None:
        gauge = Gauge()
        backend = watched(gauge)
        assert all(isinstance(backend, ability) for ability in (Unloads, TellsEvents))
        first = await backend.generate(LLMRequest("hello", 5))
        (pid,) = backend.processes
        gauge.share = 0.03
        assert await asyncio.to_thread(until, lambda: not backend.processes)
        assert not alive(pid)
        with pytest.raises(BackendError, match=r"no room for it yet: 3\.0 % of memory free") as caught:
            await backend.generate(LLMRequest("hello", 5))
        assert caught.value.kind is Failure.UNAVAILABLE and caught.value.retryable
        assert backend.count_tokens("two words") == 2, "counting needs no model"
        gauge.share = 0.5
        assert await backend.generate(LLMRequest("hello", 5)) == first
        kinds = [(type(e).__name__, getattr(e, "level", "")) for e in backend.drain_events()]
        assert kinds[:2] == [("MemoryPressure", "critical"), ("ModelUnloaded", "")]
        assert all(kind == ("MemoryPressure", "calm") for kind in kinds[2:])

    asyncio.run(main())


def check_a_call_under_way_ends_typed() -> None:
    """The only model is at work when memory runs out; another call waits for it."""

    async def main() -> None:
        gauge = Gauge()
        backend = watched(gauge, token_s=0.01)
        await backend.warm()
        long = asyncio.create_task(backend.generate(LLMRequest("hello", 3000)))
        assert await asyncio.to_thread(until, lambda: backend._fleet.instances[0].calls == 1)
        await asyncio.sleep(0.2)
        waiting = asyncio.create_task(backend.generate(LLMRequest("next", 2)))
        gauge.share = 0.03
        with pytest.raises(BackendError) as caught:
            async with asyncio.timeout(20):
                await long
        gauge.share = 0.5
        assert caught.value.kind is Failure.UNLOADED
        assert caught.value.partial and not caught.value.free, "what had come was made, and costs"
        assert (await waiting).tokens_out == 2, "a call that had not begun is answered by the next process"
        (unloaded,) = (e for e in backend.drain_events() if isinstance(e, ModelUnloaded))
        assert unloaded.reason == "memory" and unloaded.calls >= 1

    asyncio.run(main())


def test_a_call_under_way_ends_typed() -> None:
    check_a_call_under_way_ends_typed()


def test_the_least_recently_used_instance_goes_first_and_the_busy_one_stays() -> None:
    async def main() -> None:
        gauge = Gauge()
        backend = watched(gauge, instances=3, token_s=0.01)
        await backend.warm()
        assert backend._fleet is not None
        first, second, third = backend._fleet.instances
        third.last_used, second.last_used = 1.0, 2.0
        roles: dict[str, str] = {}
        for n in range(100):
            roles.setdefault(backend._fleet.instance(f"r{n}").name, f"r{n}")
        at_work = asyncio.create_task(backend.generate(LLMRequest("hello", 60, role=roles[first.name])))
        assert await asyncio.to_thread(until, lambda: first.calls == 1)
        gone: list[str] = []
        gauge.share = 0.03

        def see() -> bool:
            gone.extend(i.name for i in (first, second, third) if not i.loaded and i.name not in gone)
            if len(gone) == 2:
                gauge.share = 0.5
            return len(gone) == 2

        assert await asyncio.to_thread(until, see)
        assert gone == [third.name, second.name]
        assert (await at_work).tokens_out == 60

    asyncio.run(main())


def test_unload_by_hand_gives_the_processes_free() -> None:
    async def main() -> None:
        backend = make()
        await backend.unload()
        await backend.warm()
        (pid,) = backend.processes
        await backend.unload()
        assert backend.processes == () and not alive(pid)
        await backend.unload()
        assert (await backend.generate(LLMRequest("hello", 3))).tokens_out == 3

    asyncio.run(main())


def test_a_death_that_is_told_as_a_crash_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: who unloads does not say so."""
    from apex_framework.workers.fleet import Instance

    async def silent(self: Instance) -> None:
        worker = self._worker
        if worker is not None:
            await worker.end(1.0)

    monkeypatch.setattr(Instance, "unload", silent)
    with pytest.raises(AssertionError):
        check_a_call_under_way_ends_typed()


# --- limits, and what the machine says ------------------------------------------------------------


def test_limits_come_from_variables_and_impossible_ones_are_refused() -> None:
    assert limits_from({}) == MemoryLimits()
    assert limits_from({"APEX_MEMORY_UNLOAD": "12%"}) == MemoryLimits(warn=0.12, unload=0.12)
    assert limits_from({"APEX_MEMORY_WARN": "20", "APEX_MEMORY_UNLOAD": "0"}) == MemoryLimits(0.2, 0.0)
    for text in ("-1", "100", "nan", "much", "5%%"):
        with pytest.raises(ConfigError, match="APEX_MEMORY_WARN must be a percentage"):
            limits_from({"APEX_MEMORY_WARN": text})
    with pytest.raises(ConfigError, match=r"unload 0\.3, warn 0\.2"):
        limits_from({"APEX_MEMORY_WARN": "20", "APEX_MEMORY_UNLOAD": "30"})
    for options in ({"interval_s": 0}, {"interval_s": float("nan")}, {"patience": -1}, {"relief": -0.1}):
        with pytest.raises(ConfigError):
            MemoryLimits(**options)
    assert percent(" 7.5% ", "x") == 0.075


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_tighter_of_machine_and_control_group_counts(tmp_path: Path) -> None:
    assert memory_now(tmp_path) is None or memory_now(tmp_path), "no /proc there: POSIX, or nothing"
    write(tmp_path / "proc/meminfo", "MemTotal:  16000000 kB\nMemFree: 1 kB\nMemAvailable:    8000000 kB\n")
    assert memory_now(tmp_path) == Memory(8_192_000_000, 16_384_000_000)
    write(tmp_path / "proc/self/cgroup", "0::/box/inner\n")
    group = tmp_path / "sys/fs/cgroup/box"
    write(group / "inner/memory.max", "max\n")
    write(group / "inner/memory.current", "1\n")
    write(group / "memory.max", "4000000000\n")
    write(group / "memory.current", "3900000000\n")
    write(
        group / "memory.stat", "anon 2900000000\nactive_file 400000000\ninactive_file 500000000\nslab_reclaimable 0\n"
    )
    assert memory_now(tmp_path) == Memory(1_000_000_000, 4_000_000_000), "the cache of files can be dropped"
    old = tmp_path / "sys/fs/cgroup/memory"
    write(old / "memory.limit_in_bytes", "2000000000\n")
    write(old / "memory.usage_in_bytes", "1950000000\n")
    write(old / "memory.stat", "total_active_file 10000000\ntotal_inactive_file 0\n")
    assert memory_now(tmp_path) == Memory(60_000_000, 2_000_000_000)
    write(old / "memory.limit_in_bytes", "9223372036854771712\n")
    write(group / "memory.stat", "nonsense\n")
    assert memory_now(tmp_path) == Memory(8_192_000_000, 16_384_000_000), "what cannot be read does not count"


VM_STAT = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               10000.
Pages active:                            200000.
Pages inactive:                           20000.
Pages speculative:                         3000.
Pages wired down:                        150000.
Pages purgeable:                           1000.
"Translation faults":                  99999999.
"""


def test_vm_stat_is_read() -> None:
    assert from_vm_stat(VM_STAT, 8 << 30) == Memory(34_000 * 16_384, 8 << 30)
    assert from_vm_stat("nothing", 8 << 30) is None
    assert from_vm_stat(VM_STAT, 0) is None
