"""Cancelled at every await there is: settled exactly once, charged what may have been used, nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from apex_budgets.episode import EpisodeScope
from apex_framework import timeloop
from apex_framework.budget import Guard, Ledger
from apex_framework.errors import ConfigError, Failure
from apex_framework.events import CallSettled, Event
from apex_framework.interfaces import CallTags, Chunk, Denied, LLMRequest, LLMResult, LLMStatus
from apex_framework.ports import LoopClock
from apex_framework.services import LLMService
from apex_framework.testing.unruly import TEXT, UnrulyBackend

TAGS = CallTags("run", "ep1", "coder1", "coder", 10_000)
REQUEST = LLMRequest("p" * 399, 20)


@dataclass
class Desk:
    """A service over one unruly backend on the running loop."""

    how: str = ""
    times: int | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        self.ledger = Ledger()
        self.events: list[Event] = []
        self.backend = UnrulyBackend(self.how, times=self.times)
        guard = Guard(self.ledger, [EpisodeScope()], clock=clock)
        self.service = LLMService(
            {"*": self.backend}, guard, clock=clock, on_event=self.events.append, **{"deadline_s": 5.0, **self.options}
        )

    @property
    def used(self) -> int:
        return self.ledger.used("episode:ep1") if self.ledger.knows("episode:ep1") else 0

    def sound(self) -> bool:
        """Everything that was reserved is settled, told once, and nothing is under way."""
        loop: Any = asyncio.get_running_loop()
        timers = [timer for timer in loop._scheduled if not timer.cancelled()]
        settled = [event for event in self.events if isinstance(event, CallSettled)]
        return (
            self.ledger.open == ()
            and len(settled) == sum(type(entry).__name__ == "Reserved" for entry in self.ledger.entries)
            and self.backend.open == 0
            and timers == []
            and asyncio.all_tasks(loop) == {asyncio.current_task()}
            and not self.service.cancel("call")
        )


async def generate(desk: Desk) -> object:
    return await desk.service.generate(TAGS, LLMRequest(REQUEST.prompt, 20, request_id="call"))


async def stream(desk: Desk) -> object:
    async with desk.service.stream(TAGS, LLMRequest(REQUEST.prompt, 20, request_id="call")) as pieces:
        return [chunk async for chunk in pieces]


def cancelled_after(steps: int, how: str, times: int | None, ask: Callable[[Desk], Any], **options: Any) -> bool:
    """Cancel a call after so many steps of the loop; whether it was still under way then."""
    calls: list[asyncio.Task[Any]] = []
    left = [steps]

    def observe(handle: object, now: float) -> None:
        if calls:
            left[0] -= 1
            if left[0] == 0:
                asked.append(now)
                calls[0].cancel()

    asked: list[float] = []

    async def work() -> bool:
        desk = Desk(how, times, options)
        calls.append(asyncio.create_task(ask(desk)))
        await asyncio.wait(calls)
        under_way = bool(asked)
        assert not asked or asyncio.get_running_loop().time() - asked[0] <= 0.25
        await asyncio.sleep(0)
        assert desk.sound(), f"cancelled after {steps} steps: {desk.ledger.open} {desk.events}"
        if desk.used:
            assert desk.backend.requests
        return under_way

    return timeloop.run(work(), observe=observe)


@pytest.mark.parametrize("ask", [generate, stream])
@pytest.mark.parametrize(
    ("how", "times", "options"),
    [
        ("", None, {}),
        ("", None, {"first_token_s": 1.0, "idle_s": 1.0}),
        ("refuses", 2, {}),
        ("busy", 1, {"first_token_s": 1.0}),
        ("answers_when_cancelled", None, {}),
        ("ignores_cancellation", None, {"first_token_s": 1.0}),
        ("tidies_up_for_ever", None, {}),
        ("never_closes", None, {"idle_s": 1.0}),
        ("stalls", None, {"idle_s": 1.0}),
        ("limits_itself", None, {}),
    ],
)
def test_cancelled_at_every_await_it_is_settled_once(how: str, times: int | None, options: Any, ask: Any) -> None:
    steps = 1
    while cancelled_after(steps, how, times, ask, **options):
        steps += 1
    assert steps > 4  # there were awaits to cancel at


def on(work: Callable[[], Any]) -> Any:
    return timeloop.run(work())


def test_cancel_ends_a_call_and_charges_it() -> None:
    async def work() -> None:
        for how in ("never_answers", "ignores_cancellation", "answers_when_cancelled"):
            desk = Desk(how)
            call = asyncio.create_task(generate(desk))
            await asyncio.sleep(1.0)
            assert desk.service.cancel("call") and desk.service.cancel("call")
            answer = await call
            assert isinstance(answer, LLMResult) and answer.status is LLMStatus.CANCELLED
            assert answer.failure == Failure.CANCELLED and desk.used == 120 and desk.sound()
            assert asyncio.get_running_loop().time() % 100 <= 1.25
            await asyncio.sleep(100 - asyncio.get_running_loop().time() % 100)

    on(work)


def test_cancel_between_attempts_or_before_the_call_costs_nothing() -> None:
    async def work() -> None:
        desk = Desk("busy")
        call = asyncio.create_task(generate(desk))
        await asyncio.sleep(0.5)  # it waits for the server to be less busy
        assert desk.service.cancel("call")
        answer = await call
        assert isinstance(answer, LLMResult) and answer.status is LLMStatus.CANCELLED and desk.used == 0
        early = desk.service.stream(TAGS, LLMRequest("p", 5, request_id="early"))
        assert desk.service.cancel("early")
        told = await early.answer()
        assert isinstance(told, LLMResult) and told.status is LLMStatus.CANCELLED and desk.used == 0
        assert len(desk.backend.requests) == 1 and desk.sound()

    on(work)


def test_cancel_of_what_is_not_under_way_does_nothing() -> None:
    async def work() -> None:
        desk = Desk()
        assert not desk.service.cancel("call")
        await generate(desk)
        assert not desk.service.cancel("call")

    on(work)


def test_two_calls_under_way_cannot_have_one_id() -> None:
    async def work() -> None:
        desk = Desk()
        first = asyncio.create_task(generate(desk))
        await asyncio.sleep(0)
        with pytest.raises(ConfigError, match="under way"):
            await generate(desk)
        with pytest.raises(ConfigError, match="under way"):
            desk.service.stream(TAGS, LLMRequest("p", 5, request_id="call"))
        assert (await first).text == TEXT
        await generate(desk)
        assert desk.sound()

    on(work)


def test_an_answer_that_comes_with_the_cancellation_is_dropped_and_charged_as_it_is() -> None:
    async def work() -> None:
        desk = Desk()
        call = asyncio.create_task(generate(desk))
        asyncio.get_running_loop().call_at(0.01, desk.service.cancel, "call")  # the moment at which the answer comes
        answer = await call
        assert isinstance(answer, LLMResult) and answer.status is LLMStatus.CANCELLED and answer.text == ""
        assert desk.used in (115, 120) and desk.sound()

    on(work)


def test_a_stream_gives_pieces_as_they_come_and_the_result_last() -> None:
    async def work() -> None:
        desk = Desk()
        async with desk.service.stream(TAGS, REQUEST) as pieces:
            seen: list[Chunk] = [chunk async for chunk in pieces]
        assert "".join(chunk.text for chunk in seen) == TEXT
        assert [chunk.result is None for chunk in seen] == [True] * 7 + [False]
        assert seen[-1].result == await pieces.answer() and desk.used == 115 and desk.sound()

    on(work)


def test_a_stream_that_nobody_reads_ends_within_its_deadline() -> None:
    async def work() -> None:
        desk = Desk("drips")
        pieces = desk.service.stream(TAGS, REQUEST)
        async for _ in pieces:
            break
        del pieces
        await asyncio.sleep(6.0)
        assert desk.used == 120 and desk.sound()

    on(work)


def test_a_stream_left_early_is_cancelled_and_charged() -> None:
    async def work() -> None:
        desk = Desk("drips")
        async with desk.service.stream(TAGS, REQUEST) as pieces:
            async for _ in pieces:
                break
        assert desk.used == 120 and desk.sound()
        rest = [chunk async for chunk in pieces]
        assert rest[-1].result is not None and rest[-1].result.status is LLMStatus.CANCELLED

    on(work)


def test_a_denied_stream_has_no_pieces() -> None:
    async def work() -> None:
        desk = Desk()
        async with desk.service.stream(TAGS, LLMRequest("p", 20_000)) as pieces:
            assert [chunk async for chunk in pieces] == []
            assert isinstance(await pieces.answer(), Denied)
        assert desk.backend.requests == []

    on(work)


def test_closing_the_service_ends_its_streams() -> None:
    async def work() -> None:
        desk = Desk("ignores_cancellation")
        pieces = desk.service.stream(TAGS, REQUEST)
        await asyncio.sleep(0.5)
        await desk.service.close()
        assert desk.used == 120 and desk.sound()
        told = await pieces.answer()
        assert isinstance(told, LLMResult) and told.status is LLMStatus.CANCELLED

    on(work)


def test_output_is_capped_to_what_the_budget_pays_for() -> None:
    async def work() -> None:
        desk = Desk()
        tags = CallTags("run", "ep1", "coder1", "coder", 110)
        answer = await desk.service.generate(tags, REQUEST, least=5)
        assert isinstance(answer, LLMResult) and answer.status is LLMStatus.LENGTH and answer.tokens_out <= 10
        assert desk.backend.requests[0].max_tokens == 10 and desk.used <= 110
        assert isinstance(await desk.service.generate(tags, REQUEST, least=11), Denied)
        assert isinstance(await desk.service.generate(tags, REQUEST), Denied)
        with pytest.raises(ConfigError, match="least"):
            await desk.service.generate(tags, REQUEST, least=0)

    on(work)
