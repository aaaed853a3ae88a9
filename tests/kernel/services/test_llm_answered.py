"""A call that an interceptor answers: no reservation, no tokens, an event; also streamed, also without a budget left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from apex_budgets.episode import EpisodeScope
from apex_framework import timeloop
from apex_framework.budget import Guard, Ledger
from apex_framework.events import CallAnswered, CallSettled, Event
from apex_framework.interfaces import CallTags, Denied, Intercepted, LLMRequest, LLMResult, PlanKey, Point
from apex_framework.ports import LoopClock
from apex_framework.services import LLMService
from apex_framework.services.tokenizers import TokenizerPool
from apex_framework.testing.scripted import ScriptedBackend

TAGS = CallTags("run1", "ep1", "planner1", "planner", 1_000)
KEY = PlanKey("shop", "vague:none", "planning")
KEPT = "k" * 39  # 10 tokens by the rule of four
PROMPT = "p" * 399  # 100


class Answering:
    """Answers in the model's stead with this, or lets everything pass when it is None."""

    name = "answering"
    points = frozenset({Point.MODEL_CALL})

    def __init__(self, answer: object) -> None:
        self.answer, self.seen = answer, list[Intercepted]()

    async def around(self, passing: Intercepted, proceed: Callable[[Intercepted], Awaitable[Any]]) -> Any:
        self.seen.append(passing)
        return await proceed(passing) if self.answer is None else self.answer


class Uncountable(ScriptedBackend):
    """Cannot count."""

    def count_tokens(self, text: str) -> int:
        raise RuntimeError("no tokenizer")


def asked(
    answer: object, *, backend: ScriptedBackend | None = None, max_tokens: int = 50, streamed: bool = False
) -> Any:
    """(answer, events, interceptor, tokens held by the ledger, pieces) of one call."""
    interceptor, events, ledger = Answering(answer), list[Event](), Ledger()

    async def work() -> tuple[object, list[str]]:
        clock = LoopClock(asyncio.get_running_loop())
        service = LLMService(
            {"*": backend or ScriptedBackend("a" * 39)},
            Guard(ledger, [EpisodeScope()], safety=1.0, clock=clock),
            clock=clock,
            interceptors=[interceptor],
            on_event=events.append,
            plan_key=lambda: KEY,
            tokenizers=TokenizerPool(),
        )
        request = LLMRequest(PROMPT, max_tokens)
        if not streamed:
            return await service.generate(TAGS, request, purpose="locate"), []
        stream = service.stream(TAGS, request, purpose="locate")
        pieces = [chunk.text async for chunk in stream if chunk.text]
        return None, pieces

    told, pieces = timeloop.run(work())
    held = ledger.used("episode:ep1") + ledger.reserved("episode:ep1") if "episode:ep1" in ledger.scopes else 0
    return told, events, interceptor, held, pieces


def test_it_costs_nothing_and_is_told_with_what_it_would_have_been() -> None:
    told, events, interceptor, held, _ = asked(LLMResult(KEPT, 0, 0))
    assert told == LLMResult(KEPT, 0, 0) and held == 0
    assert events == [CallAnswered("ep1", "planner1", "planner", "locate", 100, 10)]
    (seen,) = interceptor.seen
    assert (seen.plan, seen.purpose, seen.tell is not None) == (KEY, "locate", True)


def test_it_needs_no_room_in_the_budget() -> None:
    assert isinstance(asked(None, max_tokens=2_000)[0], Denied)
    assert asked(LLMResult(KEPT, 0, 0), max_tokens=2_000)[0] == LLMResult(KEPT, 0, 0)


def test_a_call_that_is_made_is_not_told_as_answered() -> None:
    _, events, _, held, _ = asked(None)
    assert [type(event) for event in events] == [CallSettled] and held == 110


def test_a_stream_of_it_is_one_piece() -> None:
    _, events, _, held, pieces = asked(LLMResult(KEPT, 0, 0), streamed=True)
    assert pieces == [KEPT] and held == 0
    assert [type(event) for event in events] == [CallAnswered]


def test_a_denial_by_an_interceptor_is_no_answer() -> None:
    denied = Denied({"policy": "no"}, {}, 100)
    told, events, *_ = asked(denied)
    assert told == denied and events == []


@pytest.mark.parametrize("text", ["", KEPT])
def test_a_backend_that_cannot_count_does_not_spoil_it(text: str) -> None:
    told, events, *_ = asked(LLMResult(text, 0, 0), backend=Uncountable("x"))
    assert told == LLMResult(text, 0, 0)
    assert events == [CallAnswered("ep1", "planner1", "planner", "locate", 100, (len(text) + 3) // 4)]
