"""A model's text may be split into more tokens than it made: who keeps to max_tokens is neither cut nor charged more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from apex_budgets.episode import EpisodeScope
from apex_framework import timeloop
from apex_framework.budget import Guard, Ledger
from apex_framework.interfaces import CallTags, Chunk, LLMCapabilities, LLMRequest, LLMResult, LLMStatus
from apex_framework.ports import LoopClock
from apex_framework.services import LLMService

TAGS = CallTags("run1", "ep1", "coder1", "coder", 1_000)
MADE = 10


class Splitting:
    """Makes ``MADE`` tokens of one letter; its tokenizer splits a letter in two, and knows what the whole answer cost."""

    def __init__(self, keeps: bool) -> None:
        self.capabilities = LLMCapabilities("splitting", 1_000, deterministic=False, keeps_max_tokens=keeps)

    def count_tokens(self, text: str) -> int:
        return MADE if text == "a" * MADE else 2 * len(text)

    def stream(self, request: LLMRequest) -> AsyncIterator[Chunk]:
        return self._stream()

    async def _stream(self) -> AsyncIterator[Chunk]:
        for _ in range(MADE):
            yield Chunk("a")
        yield Chunk("", LLMResult("a" * MADE, 2, MADE, LLMStatus.LENGTH))

    async def generate(self, request: LLMRequest) -> LLMResult:
        return LLMResult("a" * MADE, 2, MADE, LLMStatus.LENGTH)

    async def close(self) -> None:
        pass


def streamed(keeps: bool) -> tuple[object, LLMService]:
    async def work() -> tuple[object, LLMService]:
        clock = LoopClock(asyncio.get_running_loop())
        guard = Guard(Ledger(), [EpisodeScope()], clock=clock)
        service = LLMService({"*": Splitting(keeps)}, guard, clock=clock, first_token_s=5.0)
        return await service.ask(TAGS, "p", max_tokens=MADE), service

    return timeloop.run(work())


def test_an_answer_of_a_model_that_keeps_to_max_tokens_comes_whole_and_within_its_reservation() -> None:
    answer, service = streamed(keeps=True)
    assert isinstance(answer, LLMResult)
    assert (answer.text, answer.tokens_out) == ("a" * MADE, MADE)
    assert not service.ledger.violations and not service.stats.cut


def test_another_one_is_cut_where_its_text_says_that_it_did_not_stop() -> None:
    answer, service = streamed(keeps=False)
    assert isinstance(answer, LLMResult)
    assert service.stats.cut == 1 and len(answer.text) < MADE


def test_a_false_promise_is_charged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a" * (10 * MADE)

    async def more(self: Splitting) -> AsyncIterator[Chunk]:
        yield Chunk(text, LLMResult(text, 2, MADE, LLMStatus.LENGTH))

    monkeypatch.setattr(Splitting, "_stream", more)
    answer, service = streamed(keeps=True)
    assert isinstance(answer, LLMResult) and answer.tokens_out == 2 * len(text)
    assert service.ledger.violations
