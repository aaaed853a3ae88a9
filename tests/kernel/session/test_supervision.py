"""Supervision: whatever an agent does, the session knows it, says it, goes on, and ends in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from office import Act, Clerk, Office

from apex_framework.errors import ConfigError
from apex_framework.events import LoopStalled
from apex_framework.interfaces import AgentContext, AgentID, Intercepted, Message, Point
from apex_framework.session import check_times
from apex_framework.session.supervision import Unit
from apex_framework.timeloop import VirtualTimeLoop, run
from apex_lanes.fifo import FifoLane


def clerk(name: str, act: Act | None = None) -> Clerk:
    return Clerk(AgentID(name), act) if act else Clerk(AgentID(name))


def sends(audience: str, times: int = 1) -> Act:
    async def act(message: Message, context: AgentContext) -> None:
        for number in range(times):
            await context.send(audience, {"n": number})

    return act


class Odd(BaseException):
    """Neither an Exception nor known to anybody."""


@pytest.mark.parametrize(
    "fault", [ValueError("v"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), Odd("o")],
    ids=lambda fault: type(fault).__name__,
)  # fmt: skip
def test_f21_whatever_an_agent_raises_is_told_and_the_others_go_on(fault: BaseException) -> None:
    async def raises(message: Message, context: AgentContext) -> None:
        raise fault

    async def scenario() -> None:
        other = clerk("c")
        office = Office(clerk("a", sends("b+c")), clerk("b", raises), other, topology="flat")
        end = await office.work()
        assert end.status == "quiet" and other.handled == ["m2"]
        assert len(end.faults) == 5 and all(f"b: {type(fault).__name__}" in line for line in end.faults)
        assert office.router.stats.dead == {"max_retries": 1}

    run(scenario())


def test_f21_a_wrong_answer_is_told_and_its_message_is_done() -> None:
    class Talks(Clerk):
        async def handle(self, message: Message, context: AgentContext) -> None:
            return "done"  # type: ignore[return-value]  # wrong on purpose

    class Sync(Clerk):
        def handle(self, message: Message, context: AgentContext) -> None:  # type: ignore[override]  # wrong on purpose
            """Forgets to be asynchronous."""

    async def scenario() -> None:
        office = Office(clerk("a", sends("b+c")), Talks(AgentID("b")), Sync(AgentID("c")), topology="flat")
        end = await office.work()
        assert end.faults[0] == "b: TypeError: handle returned str, not None"
        assert len(end.faults) == 6 and "can't be used in 'await' expression" in end.faults[-1]
        assert office.router.stats.dead == {"max_retries": 1}

    run(scenario())


def test_f21_what_overhear_and_interceptors_raise_is_told_too() -> None:
    class Deaf(Clerk):
        def overhear(self, message: Message) -> None:
            raise SystemExit(1)

    class Wall:
        name, points = "wall", frozenset({Point.HANDLE})

        async def around(self, passing: Intercepted, proceed: Callable[[Intercepted], Awaitable[Any]]) -> Any:
            if passing.agent_id == "two":
                raise KeyboardInterrupt
            return await proceed(passing)

    async def scenario() -> None:
        office = Office(
            Deaf(AgentID("hub"), sends("one")), clerk("one", sends("two")), clerk("two"), interceptors=[Wall()]
        )
        end = await office.work()
        assert end.faults[0] == "hub: SystemExit: 1" and end.faults[1:] == ("two: KeyboardInterrupt: ",) * 5

    run(scenario())


def test_f21_an_overhear_that_forgot_to_be_synchronous_is_told() -> None:
    class Async(Clerk):
        async def overhear(self, message: Message) -> None:  # type: ignore[override]  # wrong on purpose
            raise AssertionError("nobody awaits this")

    async def scenario() -> None:
        office = Office(Async(AgentID("hub"), sends("one")), clerk("one", sends("two")), clerk("two"))
        end = await office.work()
        assert end.faults == ("hub: TypeError: overhear returned coroutine, not None",) and end.steps == 3

    run(scenario())


def test_a_lane_that_breaks_its_contract_is_told_and_nothing_is_lost() -> None:
    class Liar(FifoLane):
        def take(self) -> Message | None:
            return None

    async def scenario() -> None:
        last = clerk("b")
        office = Office(clerk("a", sends("b", 3)), last)
        office.router._boxes[AgentID("b")].lane = Liar(10)
        end = await office.work()
        assert len(last.handled) == 3 and end.status == "quiet"
        assert len(end.faults) == 1 and "b: PluginError: lane" in end.faults[0]

    run(scenario())


def swallows(times: int, log: list[str]) -> Act:
    async def act(message: Message, context: AgentContext) -> None:
        for _ in range(times):
            try:
                await asyncio.sleep(1e6)
            except BaseException as error:  # noqa: BLE001 - it is what this agent is about
                log.append(type(error).__name__)
        log.append("end")

    return act


@pytest.mark.parametrize(("times", "seen"), [(1, ["CancelledError", "end"]), (2, ["CancelledError"] * 2 + ["end"])])
def test_f23_who_swallows_a_cancellation_gets_another_and_may_clean_up(times: int, seen: list[str]) -> None:
    async def scenario() -> None:
        log: list[str] = []
        office = Office(clerk("a", swallows(times, log)), clerk("b"), handler_deadline_s=2.0, cancel_grace_s=0.5)
        end = await office.work()
        assert log == seen * 5 and end.status == "quiet"
        assert end.faults == ("a: TimeoutError: no end within 2 s",) * 5
        assert {e.reason for e in office.events if e.what == "nacked"} == {"deadline"}

    run(scenario())


def test_f23_who_swallows_every_cancellation_is_left_and_never_resumed() -> None:
    async def scenario() -> None:
        log: list[str] = []
        office = Office(clerk("a", swallows(10**9, log)), clerk("b"), handler_deadline_s=2.0, cancel_grace_s=0.5)
        end = await office.work()
        assert end.status == "quiet" and len(end.faults) == 5
        assert end.faults[0] == "a: HandlerAbandoned: cancelled twice, still at work 1 s later"
        assert {e.reason for e in office.events if e.what == "nacked"} == {"abandoned"}
        assert log.count("CancelledError") == 10 and "end" not in log
        assert office.clock.monotonic() < 5 * (2 + 1) + 2

    run(scenario())


def test_f23_a_session_ends_although_somebody_swallows_everything() -> None:
    async def boss(message: Message, context: AgentContext) -> None:
        await context.send("b", {})
        await asyncio.sleep(1.0)
        context.finish("enough")

    async def scenario() -> None:
        office = Office(clerk("a", boss), clerk("b", swallows(10**9, [])), cancel_grace_s=0.5)
        end = await office.work()
        assert (end.status, office.clock.monotonic()) == ("finished", 2.0)
        assert end.faults == ("b: HandlerAbandoned: cancelled twice, still at work 1 s later",)

    run(scenario())


def test_f23_work_that_waits_for_a_task_that_cannot_be_cancelled_is_left_too() -> None:
    stop = False
    child: list[asyncio.Task[None]] = []

    async def stubborn() -> None:
        while not stop:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1.0)

    async def waits(message: Message, context: AgentContext) -> None:
        child.append(asyncio.get_running_loop().create_task(stubborn()))
        await child[-1]
        raise AssertionError("resumed")

    async def scenario() -> None:
        nonlocal stop
        office = Office(clerk("a", sends("b")), clerk("b", waits), handler_deadline_s=1.0, cancel_grace_s=0.5)
        end = await office.session.run({})
        assert end.status == "quiet" and len(end.faults) == 5
        office.router.audit()
        stop = True
        await asyncio.gather(*child)
        await asyncio.sleep(0)  # those who waited for them end now, without going on
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(scenario())


def test_an_agent_that_cancels_its_own_task_harms_only_itself() -> None:
    async def suicidal(message: Message, context: AgentContext) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if message.attempt == 0:
            await asyncio.sleep(0)
        context.finish("alive")

    async def scenario() -> None:
        office = Office(clerk("a", sends("b")), clerk("b", suicidal))
        end = await office.work()
        assert end.reason == "alive" and end.faults[0] == "b: CancelledError: "

    run(scenario())


def test_a_limit_of_a_handler_that_was_left_does_not_reach_its_successor() -> None:
    async def limited(message: Message, context: AgentContext) -> None:
        if message.attempt:
            await asyncio.sleep(30.0)
            context.finish("undisturbed")
            return
        async with asyncio.timeout(20.0):
            await swallows(10**9, [])(message, context)

    async def scenario() -> None:
        office = Office(clerk("a", limited), clerk("b"), handler_deadline_s=40.0, cancel_grace_s=0.1)
        assert (await office.work()).reason == "undisturbed"

    run(scenario())


def test_a_lease_is_renewed_while_its_handler_runs_within_the_deadline_and_no_longer() -> None:
    async def scenario() -> None:
        async def slow(message: Message, context: AgentContext) -> None:
            if message.attempt:
                return
            for _ in range(19):
                await asyncio.sleep(1.0)
                assert office.router.try_lease(AgentID("b")) is None
                assert not [e for e in office.events if e.what == "nacked"]
            try:
                await asyncio.sleep(100.0)
            except asyncio.CancelledError:
                await asyncio.sleep(5.0)  # cleans up, past its deadline
                office.router.try_lease(AgentID("b"))

        office = Office(clerk("a", sends("b")), clerk("b", slow), handler_deadline_s=20.0, cancel_grace_s=10.0)
        office.router._lease_s = 1.5
        assert (await office.work()).status == "quiet"
        assert [e.reason for e in office.events if e.what == "nacked"] == ["lease_expired"]

    run(scenario())


def test_f23_planted_without_letting_go_a_session_would_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Unit, "_cancel", lambda self: self.task.cancel())
    with pytest.raises(TimeoutError):
        run(asyncio.wait_for(_stuck(), 1000.0))


async def _stuck() -> None:
    log: list[str] = []
    task = asyncio.get_running_loop().create_task(
        Office(clerk("a", swallows(5, log)), clerk("b"), handler_deadline_s=1.0).work()
    )
    await asyncio.wait({task}, timeout=100.0)
    if not task.done():
        raise TimeoutError


@pytest.mark.parametrize("shuffle", [False, True])
def test_f22_a_session_cancelled_at_any_turn_of_the_loop_loses_and_leaks_nothing(shuffle: bool) -> None:
    async def asks(message: Message, context: AgentContext) -> None:
        await context.ask("hello", max_tokens=10)
        await asyncio.sleep(0.01)
        try:
            await context.send("c+b", {}) if message.attempt == 0 and message.sender == "a" else None
        finally:
            await asyncio.sleep(0)
        if message.attempt == 0:
            raise RuntimeError("once")

    class Counting(VirtualTimeLoop):
        turns = 0
        at: dict[int, Callable[[], object]]

        def _run_once(self) -> None:
            self.turns += 1
            if (act := self.at.pop(self.turns, None)) is not None:
                act()
            super()._run_once()  # type: ignore[misc]  # wrong on purpose

    async def scenario(turns: list[int]) -> bool:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Counting)
        office = Office(clerk("a", sends("b+c", 4)), clerk("b", asks), clerk("c", asks), budget=2000)
        task = loop.create_task(office.session.run({}))
        for turn in turns:
            loop.at[turn] = task.cancel
        await asyncio.wait({task})
        stats = office.router.audit()
        assert stats.waiting == stats.leased == stats.backoff == 0
        assert office.router.closed or not stats.admitted  # cancelled before its first turn it did nothing
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert office.ledger.open == ()
        return task.cancelled()

    def attempt(turns: list[int]) -> tuple[bool, int]:
        loop = Counting(3, shuffle)
        loop.at = {}
        try:
            return loop.run_until_complete(scenario(turns)), loop.turns
        finally:
            loop.close()

    _, whole = attempt([])
    assert whole > 50
    results = [attempt([turn])[0] for turn in range(2, whole + 1)]
    assert all(results[:-5]) and len(results) > 50
    rng = random.Random(1)
    for _ in range(60):  # also while it is already ending
        first = rng.randint(2, whole)
        attempt([first, first + rng.randint(1, 4)])


def test_f24_a_blocked_event_loop_is_told_with_who_where_and_how_long() -> None:
    async def blocks(message: Message, context: AgentContext) -> None:
        time.sleep(0.6)  # noqa: ASYNC251 - it is what this agent is about

    events: list[LoopStalled] = []

    async def scenario() -> None:
        office = Office(
            clerk("a", sends("b")),
            clerk("b", blocks),
            on_event=events.append,
            stall_after_s=0.2,
            handler_deadline_s=0.3,
        )
        end = await office.work()
        assert "b: LoopStalled: the event loop stood still for" in end.faults[0]
        assert end.status == "quiet"

    asyncio.run(scenario())
    assert [event.agent_id for event in events] == ["b"] and events[0].stalled_ms >= 500
    assert "time.sleep(0.6)" in events[0].stack
    assert not [t for t in threading.enumerate() if t.name == "apex-watchdog" and t.is_alive() and _lives_on(t)]


def _lives_on(thread: threading.Thread) -> bool:
    thread.join(2.0)
    return thread.is_alive()


def test_f24_under_virtual_time_nobody_watches() -> None:
    async def scenario() -> None:
        before = threading.active_count()
        office = Office(clerk("a", sends("b")), clerk("b"), stall_after_s=0.001)
        assert (await office.work()).faults == () and threading.active_count() == before

    run(scenario())


def test_impossible_times_are_refused_and_doubtful_ones_are_warned_about() -> None:
    async def scenario() -> None:
        for wrong in (0.0, -1.0, float("nan")):
            with pytest.raises(ConfigError, match="no times"):
                Office(clerk("a"), clerk("b"), handler_deadline_s=wrong)

    run(scenario())
    assert check_times(60.0, 60.0) is None
    assert "expire" in (check_times(60.0, 3600.0) or "")
