"""A session: how it ends, what it does about agents that fail, and what stands around their work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from office import Act, Clerk, Office

from apex_framework.interfaces import (
    AgentContext,
    AgentID,
    Denied,
    Intercepted,
    LLMResult,
    Message,
    MessagePriority,
    Point,
    RouteResult,
)
from apex_framework.timeloop import run


def clerk(name: str, act: Act | None = None, role: str = "") -> Clerk:
    return Clerk(AgentID(name), act, role) if act else Clerk(AgentID(name), role=role)


def sends(audience: str, *, times: int = 1) -> Act:
    async def act(message: Message, context: AgentContext) -> None:
        for number in range(times):
            await context.send(audience, {"n": number})

    return act


async def finishes(message: Message, context: AgentContext) -> None:
    context.finish("done")


async def echoes(message: Message, context: AgentContext) -> None:
    await context.send(str(message.sender), message.payload)


def test_a_session_is_finished_by_an_agent_and_says_why() -> None:
    async def scenario() -> None:
        office = Office(clerk("a", sends("b")), clerk("b", finishes))
        end = await office.work()
        assert (end.status, end.reason, end.steps) == ("finished", "done", 2)
        assert [s.final for s in office.steps] == [False, True]

    run(scenario())


def test_a_session_is_quiet_when_nothing_is_left_to_do() -> None:
    async def scenario() -> None:
        office = Office(clerk("a", sends("b")), clerk("b"))
        end = await office.work()
        assert (end.status, end.steps) == ("quiet", 2)
        assert [s.final for s in office.steps] == [False, True]

    run(scenario())


def test_a_session_ends_after_max_steps() -> None:
    async def scenario() -> None:
        office = Office(clerk("a", sends("b")), clerk("b", echoes), max_steps=7)
        end = await office.work()
        assert end.status == "max_steps"
        assert [s.number for s in office.steps] == list(range(1, 8))
        assert [s.final for s in office.steps] == [False] * 6 + [True]

    run(scenario())


def test_steps_come_one_by_one_and_in_order_while_agents_go_on() -> None:
    inside = Counter[str]()
    seen: list[int] = []

    async def slow(step: Any) -> None:
        inside["now"] += 1
        inside["most"] = max(inside["most"], inside["now"])
        await asyncio.sleep(0.1)
        seen.append(step.number)
        inside["now"] -= 1

    async def scenario() -> None:
        office = Office(clerk("a", sends("b", times=5)), clerk("b"), on_step=slow)
        assert (await office.work()).steps == 6

    run(scenario())
    assert seen == [1, 2, 3, 4, 5, 6] and inside["most"] == 1


def test_a_raising_agent_is_tried_again_and_its_error_is_kept() -> None:
    tries: list[int] = []

    async def fails_twice(message: Message, context: AgentContext) -> None:
        tries.append(message.attempt)
        if len(tries) < 3:
            raise RuntimeError("no luck")
        context.finish("third time lucky")

    async def scenario() -> None:
        office = Office(clerk("a", fails_twice), clerk("b"))
        end = await office.work()
        assert end.reason == "third time lucky"
        assert tries == [0, 1, 2]
        assert office.session.faults == ["a: RuntimeError: no luck"] * 2
        assert [s.error for s in office.steps] == ["a: RuntimeError: no luck"] * 2 + [""]

    run(scenario())


def test_an_agent_that_always_raises_ends_as_a_dead_letter_and_the_session_goes_quiet() -> None:
    async def fails(message: Message, context: AgentContext) -> None:
        raise ValueError("never")

    async def scenario() -> None:
        office = Office(clerk("a", fails), clerk("b"))
        assert (await office.work()).status == "quiet"
        assert len(office.session.faults) == 5
        assert office.router.stats.dead == {"max_retries": 1}

    run(scenario())


def test_a_handler_over_its_deadline_is_cancelled_and_tried_again() -> None:
    cleaned: list[str] = []

    async def hangs_once(message: Message, context: AgentContext) -> None:
        if message.attempt == 0:
            try:
                await asyncio.sleep(1e9)
            finally:
                cleaned.append("yes")
        context.finish("second try")

    async def scenario() -> None:
        office = Office(clerk("a", hangs_once), clerk("b"), handler_deadline_s=5.0)
        end = await office.work()
        assert end.reason == "second try" and cleaned == ["yes"]
        assert office.session.faults == ["a: TimeoutError: no end within 5 s"]
        assert [e.reason for e in office.events if e.what == "nacked"] == ["deadline"]
        assert 5.0 <= office.clock.monotonic() < 6.0

    run(scenario())


def test_a_hanging_agent_does_not_keep_a_finished_session_alive() -> None:
    async def hangs(message: Message, context: AgentContext) -> None:
        await asyncio.sleep(1e9)

    async def boss(message: Message, context: AgentContext) -> None:
        await context.send("b", {})
        await asyncio.sleep(1.0)
        context.finish("enough")

    async def scenario() -> None:
        office = Office(clerk("a", boss), clerk("b", hangs))
        assert (await office.work()).reason == "enough"
        assert office.router.stats.dead == {"episode_over": 1}

    run(scenario())


def test_who_finishes_completes_its_step_whatever_others_do_meanwhile() -> None:
    done: list[str] = []

    async def boss(message: Message, context: AgentContext) -> None:
        await context.send("b", {})
        context.finish("mine")
        await asyncio.sleep(1.0)
        done.append("last words")

    async def scenario() -> None:
        office = Office(clerk("a", boss), clerk("b"))
        assert (await office.work()).reason == "mine"
        assert done == ["last words"]

    run(scenario())


def test_the_first_reason_to_finish_stands() -> None:
    async def twice(message: Message, context: AgentContext) -> None:
        context.finish("first")
        context.finish("second")

    async def scenario() -> None:
        assert (await Office(clerk("a", twice), clerk("b")).work()).reason == "first"

    run(scenario())


def test_a_relay_overhears_and_never_handles() -> None:
    async def scenario() -> None:
        hub, spoke, other = clerk("hub", sends("one")), clerk("one", sends("two")), clerk("two")
        office = Office(hub, spoke, other, topology="star")
        await office.work()
        assert hub.handled == ["m1"] and hub.overheard == ["m3"]
        assert spoke.handled == ["m2"] and spoke.overheard == []
        assert other.handled == ["m3"]
        assert [(s.agent, s.message.msg_id) for s in office.steps] == [("hub", "m1"), ("one", "m2"), ("two", "m3")]

    run(scenario())


def test_a_relay_that_cannot_listen_still_passes_the_message_on() -> None:
    class Deaf(Clerk):
        def overhear(self, message: Message) -> None:
            raise OSError("no ears")

    async def scenario() -> None:
        last = clerk("two")
        office = Office(Deaf(AgentID("hub"), sends("one")), clerk("one", sends("two")), last)
        assert (await office.work()).status == "quiet"
        assert last.handled == ["m3"]
        assert office.session.faults == ["hub: OSError: no ears"]

    run(scenario())


def test_with_share_everything_everybody_hears_every_message_once() -> None:
    async def scenario() -> None:
        clerks = [clerk("a", sends("b")), clerk("b", sends("c+d")), clerk("c"), clerk("d")]
        await Office(*clerks, topology="flat", share_everything=True).work()
        assert [c.handled for c in clerks] == [["m1"], ["m2"], ["m3"], ["m3"]]
        assert [c.overheard for c in clerks] == [["m3"], [], ["m2"], ["m2"]]

    run(scenario())


class Witness:
    """Sees what passes its points."""

    name = "witness"

    def __init__(self, *points: Point) -> None:
        self.points = frozenset(points)
        self.seen: list[tuple[Point, str, str]] = []

    async def around(self, passing: Intercepted, proceed: Callable[[Intercepted], Awaitable[Any]]) -> Any:
        subject = passing.subject
        self.seen.append((passing.point, passing.agent_id, getattr(subject, "msg_id", "")))
        return await proceed(passing)


def test_interceptors_see_every_message_sent_and_every_message_handled() -> None:
    async def scenario() -> None:
        witness = Witness(Point.SEND, Point.HANDLE)
        office = Office(
            clerk("a", sends("b+c")), clerk("b", sends("c")), clerk("c"), topology="chain", interceptors=[witness]
        )
        await office.work()
        sent = [(agent, msg) for point, agent, msg in witness.seen if point is Point.SEND]
        handled = [(agent, msg) for point, agent, msg in witness.seen if point is Point.HANDLE]
        assert sent == [("a", "m2"), ("b", "m3")]
        assert handled == [(str(s.agent), s.message.msg_id) for s in office.steps]
        assert set(handled) == {("a", "m1"), ("b", "m2"), ("c", "m2"), ("c", "m3")}

    run(scenario())


def test_an_interceptor_may_answer_instead_of_the_router() -> None:
    class Wall(Witness):
        async def around(self, passing: Intercepted, proceed: Callable[[Intercepted], Awaitable[Any]]) -> Any:
            return RouteResult.POLICY

    results: list[RouteResult] = []

    async def boss(message: Message, context: AgentContext) -> None:
        results.append(await context.send("b", {}))

    async def scenario() -> None:
        other = clerk("b")
        await Office(clerk("a", boss), other, interceptors=[Wall(Point.SEND)]).work()
        assert results == [RouteResult.POLICY] and not results[0] and other.handled == []

    run(scenario())


def test_cancelling_a_session_leaves_nothing_behind() -> None:
    async def hangs(message: Message, context: AgentContext) -> None:
        await asyncio.sleep(1e9)

    async def scenario() -> None:
        office = Office(clerk("a", sends("b+c")), clerk("b", hangs), clerk("c", hangs))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3.0):
                await office.session.run({})
        stats = office.router.audit()
        assert stats.waiting == stats.leased == stats.backoff == 0
        assert stats.dead == {"episode_over": 2}
        assert office.router.closed and asyncio.all_tasks() == {asyncio.current_task()}

    run(scenario())


def test_an_error_of_on_step_ends_the_session_with_that_error() -> None:
    async def broken(step: Any) -> None:
        raise LookupError("no such controller")

    async def scenario() -> None:
        office = Office(clerk("a"), clerk("b"), on_step=broken)
        with pytest.raises(LookupError, match="no such controller"):
            await office.work()
        assert office.router.closed

    run(scenario())


def test_a_model_call_is_charged_and_a_denial_is_an_answer() -> None:
    answers: list[object] = []
    shares: list[float] = []

    async def asks(message: Message, context: AgentContext) -> None:
        for _ in range(3):
            answers.append(await context.ask("x" * 200, max_tokens=40, purpose="test"))
            shares.append(context.headroom)

    async def scenario() -> None:
        office = Office(clerk("a", asks), clerk("b"), budget=160, answers="yes")
        assert (await office.work()).status == "quiet"
        assert [type(a) for a in answers] == [LLMResult, LLMResult, Denied]
        assert 1.0 > shares[0] > shares[1] == shares[2] >= 0.0

    run(scenario())


def test_a_tool_that_is_not_granted_is_a_refusal_and_on_tool_hears_of_it() -> None:
    heard: list[tuple[str, str]] = []

    async def uses(message: Message, context: AgentContext) -> None:
        assert not (await context.use("fs.read", path="x")).ok

    async def scenario() -> None:
        office = Office(clerk("a", uses), clerk("b"), on_tool=lambda tool, result: heard.append((tool, result.error)))
        await office.work()

    run(scenario())
    assert heard == [("fs.read", "E_POLICY")]


def test_seeds_of_model_calls_depend_on_session_agent_and_prompt_only() -> None:
    async def asks(message: Message, context: AgentContext) -> None:
        await context.ask("one", max_tokens=5)
        await context.ask("two", max_tokens=5)

    async def seeds(seed: int) -> list[int]:
        office = Office(clerk("a", asks), clerk("b"), seed=seed)
        await office.work()
        return [r.seed for r in office.backend.requests]

    first, again, other = run(seeds(1)), run(seeds(1)), run(seeds(2))
    assert first == again and len(set(first)) == 2 and not set(first) & set(other)


@pytest.mark.parametrize("seed", range(8))
def test_messages_are_conserved_under_any_interleaving(seed: int) -> None:
    async def busy(message: Message, context: AgentContext) -> None:
        hops = int(message.payload.get("left", 6))
        await asyncio.sleep(0.01 * (hops % 3))
        if hops == 3 and message.attempt == 0:
            raise RuntimeError("once")
        for audience in ("b+c", "d")[: 1 + hops % 2] if hops else ():
            await context.send(audience, {"left": hops - 1}, priority=MessagePriority.FINAL)

    async def scenario() -> None:
        office = Office(*(clerk(n, busy) for n in "abcd"), topology="chain", max_steps=500)
        end = await office.work()
        assert end.status == "quiet" and end.steps == len(office.steps)

    run(scenario(), seed=seed, shuffle=True)


@pytest.mark.asyncio
async def test_real_time_gives_the_same_session() -> None:
    async def asks(message: Message, context: AgentContext) -> None:
        answer = await context.ask("hello", max_tokens=10)
        assert isinstance(answer, LLMResult)
        await asyncio.sleep(0.01)
        await context.send("b", {"text": answer.text})

    office = Office(clerk("a", asks), clerk("b", finishes), answers="hi")
    end = await office.session.run({})
    assert (end.status, end.steps) == ("finished", 2)
    stats = office.router.audit()
    assert stats.waiting == stats.leased == stats.backoff == 0
