"""Conformance kit of LLM backends. It runs on an ordinary event loop, without network if the backend needs none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from ..interfaces.llm import LLMBackend, LLMCapabilities, LLMRequest, LLMResult, LLMStatus
from .conformance import run_checks

KIND: Final = "llm_backend"
PROMPT: Final = "Reply with the names of the seven days of the week, one a line, in English."
TEXTS: Final = ("", "a", "def f(x):\n    return x + 1\n", "Straße, naïve, 漢字, \U0001f40d", "word " * 200, PROMPT)
MAX_TOKENS: Final = 48
TIGHT: Final = 2
SLACK: Final = 64
"""Tokens that a chat template may add to a prompt."""

Make = Callable[[], LLMBackend]


def check_llm_backend(make: Make, *, prompt: str = PROMPT, timeout_s: float = 60.0) -> None:
    """Run every check on fresh backends; each takes at most ``timeout_s``. Raises ConformanceError.

    ``prompt`` is one that the backend answers with several tokens. Not to be called from a running event loop.
    """
    request = LLMRequest(prompt, MAX_TOKENS, seed=7)

    def on_loop(check: Callable[[Make, LLMRequest], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        return lambda: asyncio.run(_within(check(make, request), timeout_s))

    run_checks(
        KIND,
        {
            "capabilities_are_constant": on_loop(check_capabilities_are_constant),
            "counts_are_pure": on_loop(check_counts_are_pure),
            "counts_grow_with_text": on_loop(check_counts_grow_with_text),
            "answers_with_a_result": on_loop(check_answers_with_a_result),
            "usage_is_whole_numbers": on_loop(check_usage_is_whole_numbers),
            "usage_agrees_with_counts": on_loop(check_usage_agrees_with_counts),
            "max_tokens_is_respected": on_loop(check_max_tokens_is_respected),
            "same_request_same_answer": on_loop(check_same_request_same_answer),
            "cancellation_releases": on_loop(check_cancellation_releases),
            "close_is_idempotent": on_loop(check_close_is_idempotent),
        },
    )


async def check_capabilities_are_constant(make: Make, request: LLMRequest) -> None:
    """What it is does not change, not even by a call."""
    backend = make()
    try:
        before = backend.capabilities
        assert isinstance(before, LLMCapabilities), f"capabilities are {before!r}"
        assert isinstance(before.model_id, str) and before.model_id, f"model_id is {before.model_id!r}"
        assert type(before.context_tokens) is int and before.context_tokens > 0, f"{before.context_tokens!r} of context"
        await backend.generate(request)
        assert backend.capabilities == before, f"{before} became {backend.capabilities}"
    finally:
        await backend.close()


async def check_counts_are_pure(make: Make, request: LLMRequest) -> None:
    """The same text has the same count, an integer >= 0, before and after a call."""
    backend = make()
    try:
        first = [backend.count_tokens(text) for text in TEXTS]
        assert all(type(n) is int and n >= 0 for n in first), f"counts are {first}"
        await backend.generate(request)
        again = [backend.count_tokens(text) for text in TEXTS]
        assert first == again, f"counts change from {first} to {again}"
    finally:
        await backend.close()


async def check_counts_grow_with_text(make: Make, request: LLMRequest) -> None:
    """More text has more tokens; two texts joined have about as many as both."""
    backend = make()
    try:
        one, four, forty = (backend.count_tokens("some words of text. " * n) for n in (1, 4, 40))
        assert 0 < one < four < forty, f"1, 4 and 40 lines count {one}, {four}, {forty}"
        left, right = "alpha beta gamma " * 20, "def f(x): return x\n" * 20
        both, apart = backend.count_tokens(left + right), backend.count_tokens(left) + backend.count_tokens(right)
        assert abs(both - apart) <= 8, f"joined texts count {both}, apart {apart}"
    finally:
        await backend.close()


async def check_answers_with_a_result(make: Make, request: LLMRequest) -> None:
    """A call answers with an LLMResult that carries text and a status."""
    result = await _answer(make, request)
    assert isinstance(result, LLMResult), f"the answer is {result!r}"
    assert isinstance(result.text, str) and isinstance(result.status, LLMStatus), f"the answer is {result!r}"
    assert result.status in (LLMStatus.OK, LLMStatus.LENGTH), f"the call ended as {result.status}: {result.error}"


async def check_usage_is_whole_numbers(make: Make, request: LLMRequest) -> None:
    """Reported usage is integers: at least 1 for a prompt, and 0 only for an empty answer."""
    result = await _answer(make, request)
    counts = (result.tokens_in, result.tokens_out)
    assert all(type(n) is int for n in counts), f"usage is {counts}"
    assert result.tokens_in > 0, f"a prompt has {result.tokens_in} tokens"
    assert result.tokens_out >= (1 if result.text else 0), f"an answer has {result.tokens_out} tokens"


async def check_usage_agrees_with_counts(make: Make, request: LLMRequest) -> None:
    """Reported usage is what ``count_tokens`` counts, up to 10 % and a chat template."""
    backend = make()
    try:
        long = replace(request, prompt=request.prompt + "\n" + "lorem ipsum " * 200)
        for asked in (request, long):
            result = await backend.generate(asked)
            pairs = {
                "prompt": (result.tokens_in, backend.count_tokens(asked.system + asked.prompt)),
                "answer": (result.tokens_out, backend.count_tokens(result.text) if result.text else 0),
            }
            for what, (reported, counted) in pairs.items():
                apart = abs(reported - counted)
                assert apart <= counted / 10 + SLACK, f"{what}: reported {reported}, counted {counted}"
    finally:
        await backend.close()


async def check_max_tokens_is_respected(make: Make, request: LLMRequest) -> None:
    """An answer has at most max_tokens, by its own report and by the backend's own count."""
    backend = make()
    try:
        for limit in (TIGHT, MAX_TOKENS):
            result = await backend.generate(replace(request, max_tokens=limit))
            counted = backend.count_tokens(result.text) if result.text else 0
            found = max(counted, result.tokens_out if type(result.tokens_out) is int else 0)
            assert found <= limit, f"an answer of {found} tokens where {limit} were allowed"
    finally:
        await backend.close()


async def check_same_request_same_answer(make: Make, request: LLMRequest) -> None:
    """A backend that calls itself deterministic is: answer, usage and declared latency, in any order of calls."""
    backend, other = make(), make()
    try:
        if not backend.capabilities.deterministic:
            return
        first = await backend.generate(request)
        await backend.generate(replace(request, prompt=request.prompt + " Thank you.", seed=8))
        for what, again in (
            ("asked again", await backend.generate(replace(request, request_id="again"))),
            ("another object", await other.generate(request)),
        ):
            assert again == first, f"{what}: {again} instead of {first}"
    finally:
        await backend.close()
        await other.close()


async def check_cancellation_releases(make: Make, request: LLMRequest) -> None:
    """A cancelled call ends soon, as cancelled or finished, and the next call works."""
    backend = make()
    try:
        for turns in (0, 1, 3):
            call = asyncio.ensure_future(backend.generate(request))
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            done, _ = await asyncio.wait({call}, timeout=5.0)
            assert done, "a cancelled call went on for 5 s"
            if not call.cancelled():
                call.result()
            after = await backend.generate(request)
            ended = getattr(after, "status", LLMStatus.OK)
            assert ended in (LLMStatus.OK, LLMStatus.LENGTH), f"the call after a cancelled one ended as {ended}"
    finally:
        await backend.close()


async def check_close_is_idempotent(make: Make, request: LLMRequest) -> None:
    """It can be closed unused, used, and twice."""
    unused = make()
    await unused.close()
    await unused.close()
    used = make()
    await used.generate(request)
    await used.close()
    await used.close()


async def _answer(make: Make, request: LLMRequest) -> LLMResult:
    backend = make()
    try:
        return await backend.generate(request)
    finally:
        await backend.close()


async def _within(work: Awaitable[None], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await work
