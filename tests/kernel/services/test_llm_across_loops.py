"""Tokenizers and breakers outlive the event loop of an episode: what one loop began, the next one finds."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from apex_budgets.episode import EpisodeScope
from apex_framework.budget import Guard, Ledger
from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import CallTags, LLMCapabilities, LLMRequest, LLMResult, Tokenizer
from apex_framework.ports import Effects, LoopClock
from apex_framework.services import Breakers, BreakerSettings, LLMService, TokenizerPool
from apex_framework.services.loading import InThread
from apex_framework.services.tokenizers import GUESS, LOADED
from apex_framework.testing.broken.llm_backend import RuleOfFour
from apex_framework.testing.scripted import ScriptedBackend

REQUEST = LLMRequest("p" * 399, 10)


class Slow(ScriptedBackend):
    """Its tokenizer is loaded when ``go`` is set."""

    def __init__(self) -> None:
        super().__init__("ok", model_id="slow")
        self._capabilities = LLMCapabilities("slow", 100_000, deterministic=False, exact_counts=False)
        self.go, self.loads = threading.Event(), 0

    def load_tokenizer(self) -> Tokenizer:
        self.loads += 1
        self.go.wait(60)
        return RuleOfFour()


def loads_and_sources(effects: Effects | None) -> tuple[int, list[str]]:
    """Two episodes that each count a prompt; the tokenizer arrives between them."""
    backend, pool = Slow(), TokenizerPool(effects=effects, load_s=0.01)
    sources = [asyncio.run(pool.count(backend, REQUEST)).source]
    backend.go.set()

    async def second() -> str:
        await pool.warm(backend)
        return (await pool.count(backend, REQUEST)).source

    sources.append(asyncio.run(second()))
    asyncio.run(pool.close())
    return backend.loads, sources


@pytest.mark.timeout(30)
def test_what_one_loop_began_to_load_serves_the_next_and_holds_up_neither() -> None:
    assert loads_and_sources(None) == (1, [GUESS, LOADED])


@pytest.mark.timeout(30)
def test_loading_that_belongs_to_a_loop_is_noticed() -> None:
    """The planted bug: a task of the first loop, which ends with it."""

    class OfTheLoop:
        async def run(self, work: Any, *, cost: Any) -> Any:
            thread = InThread(work)
            await thread.wait()
            return thread.value

    assert loads_and_sources(OfTheLoop()) != (1, [GUESS, LOADED])


@pytest.mark.timeout(30)
def test_whoever_waited_on_a_loop_that_is_gone_is_forgotten() -> None:
    loading, go = [], threading.Event()

    async def wait_a_little() -> None:
        loading.append(InThread(lambda: go.wait(60)))
        await loading[0].wait(0.01)

    asyncio.run(wait_a_little())
    go.set()
    asyncio.run(loading[0].wait())
    assert loading[0].over and loading[0].value is True
    asyncio.run(loading[0].wait())


class Down(ScriptedBackend):
    """A server that refuses, and counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__(["never"], model_id="down")
        self.asked = 0

    async def generate(self, request: LLMRequest) -> LLMResult:
        self.asked += 1
        raise BackendError("nobody is there", kind=Failure.CONNECT)


def test_a_breaker_that_opened_in_one_loop_is_open_in_the_next() -> None:
    backend, breakers = Down(), Breakers(BreakerSettings(failures=3, rest_s=3_600, most_rest_s=3_600))

    async def episode(calls: int) -> list[str]:
        clock = LoopClock(asyncio.get_running_loop())
        guard = Guard(Ledger(), [EpisodeScope()], clock=clock)
        service = LLMService({"*": backend}, guard, clock=clock, retries=0, breakers=breakers)
        tags = CallTags("r", "e", "a", "coder", 10_000)
        return [str((await service.generate(tags, REQUEST)).failure) for _ in range(calls)]

    assert asyncio.run(episode(3)) == ["connect"] * 3
    assert asyncio.run(episode(2)) == ["circuit_open"] * 2
    assert backend.asked == 3 and breakers.opened == 1


@pytest.mark.parametrize("error", [BackendError("no", kind=Failure.WORKER_DIED), ValueError("bug"), TimeoutError()])
def test_a_backend_that_cannot_count_is_a_call_that_failed_and_is_told(error: Exception) -> None:
    class Innumerate(ScriptedBackend):
        def count_tokens(self, text: str) -> int:
            raise error

    async def ask() -> tuple[Any, list[Any], Any]:
        clock, events, ledger = LoopClock(asyncio.get_running_loop()), list[Any](), Ledger()
        guard = Guard(ledger, [EpisodeScope()], clock=clock)
        service = LLMService({"*": Innumerate()}, guard, clock=clock, on_event=events.append)
        answer = await service.generate(CallTags("r", "e", "a", "coder", 10_000), REQUEST)
        assert not ledger.entries and service.stats.failures == {answer.failure: 1}
        return answer, events, service.stats.calls

    answer, events, calls = asyncio.run(ask())
    kind = "worker_died" if isinstance(error, BackendError) else "unknown"
    assert (str(answer.status), answer.failure, calls) == ("error", kind, 1)
    (told,) = events
    assert (told.status, told.failure, told.reserved, told.tokens_in, told.tokens_out) == ("error", kind, 0, 0, 0)
