"""Conformance kit of LLM backends. It runs on an ordinary event loop, without network if the backend needs none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from ..errors import BackendError
from ..interfaces.llm import (
    ChecksHealth,
    Chunk,
    CountsRequests,
    CountsTokens,
    Health,
    Identifies,
    LLMBackend,
    LLMCapabilities,
    LLMRequest,
    LLMResult,
    LLMStatus,
    LoadsTokenizer,
    ModelIdentity,
    Streams,
    Warms,
)
from .conformance import run_checks

KIND: Final = "llm_backend"
PROMPT: Final = "Reply with the names of the seven days of the week, one a line, in English."
TEXTS: Final = ("", "a", "def f(x):\n    return x + 1\n", "Straße, naïve, 漢字, \U0001f40d", "word " * 200, PROMPT)
MAX_TOKENS: Final = 48
TIGHT: Final = 2
SLACK: Final = 64
"""Tokens that a chat template may add to a prompt."""
APART, ROUGHLY_APART = 0.1, 0.5
"""Share by which counts may differ from reports, of exact counts and of estimates."""
SMALL_CONTEXT: Final = 40_000
"""Above so many tokens of context the kit does not try to exceed it."""
SOON_S: Final = 5.0

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
            "close_ends_calls": on_loop(check_close_ends_calls),
            "timeouts_release": on_loop(check_timeouts_release),
            "no_prompt_is_cut": on_loop(check_no_prompt_is_cut),
            "streams_whole_answers": on_loop(check_streams_whole_answers),
            "streams_can_be_left": on_loop(check_streams_can_be_left),
            "requests_are_counted_whole": on_loop(check_requests_are_counted_whole),
            "tokenizers_agree": on_loop(check_tokenizers_agree),
            "health_is_told": on_loop(check_health_is_told),
            "identity_is_constant": on_loop(check_identity_is_constant),
            "warming_can_be_repeated": on_loop(check_warming_can_be_repeated),
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
    """Reported usage is what ``count_tokens`` counts, up to 10 % (50 % for estimates) and a chat template."""
    backend = make()
    try:
        share = APART if backend.capabilities.exact_counts else ROUGHLY_APART
        long = replace(request, prompt=request.prompt + "\n" + "lorem ipsum " * 200)
        for asked in (request, long):
            result = await backend.generate(asked)
            pairs = {
                "prompt": (result.tokens_in, backend.count_tokens(asked.system + asked.prompt)),
                "answer": (result.tokens_out, backend.count_tokens(result.text) if result.text else 0),
            }
            for what, (reported, counted) in pairs.items():
                apart = abs(reported - counted)
                assert apart <= counted * share + SLACK, f"{what}: reported {reported}, counted {counted}"
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


async def check_close_ends_calls(make: Make, request: LLMRequest) -> None:
    """A call that is under way when the backend is closed ends soon, with an answer or a BackendError."""
    backend = make()
    call = asyncio.ensure_future(backend.generate(request))
    await asyncio.sleep(0.005)
    await backend.close()
    done, _ = await asyncio.wait({call}, timeout=SOON_S)
    if not done:
        call.cancel()
        await asyncio.wait({call}, timeout=SOON_S)
    assert done, f"a call went on for {SOON_S:g} s after close"
    if not call.cancelled():
        assert isinstance(call.exception(), BackendError | None), f"a call ended by close raised {call.exception()!r}"


async def check_timeouts_release(make: Make, request: LLMRequest) -> None:
    """A call that is ended in its middle, as a deadline does, leaves nothing behind: the next one works."""
    backend, loop = make(), asyncio.get_running_loop()
    try:
        times = [loop.time()]
        for _ in range(2):
            await backend.generate(request)
            times.append(loop.time())
        took = min(times[1] - times[0], times[2] - times[1])
        if took < 0.01:
            return
        for share in (0.25, 0.5, 0.75):
            call = asyncio.ensure_future(backend.generate(request))
            await asyncio.wait({call}, timeout=took * share)
            call.cancel()
            done, _ = await asyncio.wait({call}, timeout=SOON_S)
            assert done, f"a call went on for {SOON_S:g} s after its time was over"
            if not call.cancelled():
                call.exception()
        await backend.generate(request)
    finally:
        await backend.close()


async def check_no_prompt_is_cut(make: Make, request: LLMRequest) -> None:
    """A model refuses a prompt larger than its context with a BackendError, and never answers it in part."""
    backend = make()
    try:
        context = backend.capabilities.context_tokens
        if context > SMALL_CONTEXT or not backend.capabilities.is_llm:
            return
        words = "word " * context
        while backend.count_tokens(words) < context + 2 * SLACK:
            words += words
        try:
            result = await backend.generate(replace(request, prompt=words + request.prompt))
        except BackendError:
            return
        ended = getattr(result, "status", None)
        assert ended not in (LLMStatus.OK, LLMStatus.LENGTH), f"a prompt beyond {context:,} tokens was answered"
    finally:
        await backend.close()


async def check_streams_whole_answers(make: Make, request: LLMRequest) -> None:
    """A stream is chunks that together are the answer; the last one, and only that, carries the result."""
    backend = make()
    try:
        if not isinstance(backend, Streams):
            return
        chunks: list[Chunk] = [chunk async for chunk in backend.stream(request)]
        assert chunks and all(isinstance(chunk, Chunk) and isinstance(chunk.text, str) for chunk in chunks), f"{chunks}"
        results = [chunk.result for chunk in chunks]
        assert isinstance(results[-1], LLMResult) and not any(results[:-1]), (
            "the last chunk, and no other, has the result"
        )
        text, result = "".join(chunk.text for chunk in chunks), results[-1]
        assert result.status in (LLMStatus.OK, LLMStatus.LENGTH), f"the stream ended as {result.status}: {result.error}"
        assert text == result.text, f"the pieces are {text!r}, the result is {result.text!r}"
        if backend.capabilities.deterministic:
            whole = await backend.generate(request)
            assert whole.text == text, f"streamed {text!r}, at once {whole.text!r}"
    finally:
        await backend.close()


async def check_streams_can_be_left(make: Make, request: LLMRequest) -> None:
    """A stream that is closed after its first piece ends soon, and the next call works."""
    backend = make()
    try:
        if not isinstance(backend, Streams):
            return
        stream: Any = backend.stream(request)
        async with asyncio.timeout(SOON_S * 4):
            await anext(stream)
        async with asyncio.timeout(SOON_S):
            await stream.aclose()
        after = await backend.generate(request)
        ended = getattr(after, "status", LLMStatus.OK)
        assert ended in (LLMStatus.OK, LLMStatus.LENGTH), f"the call after a stream that was left ended as {ended}"
    finally:
        await backend.close()


async def check_requests_are_counted_whole(make: Make, request: LLMRequest) -> None:
    """``count_request`` is what will be reported, to 2 % and four tokens, with and without a system prompt."""
    backend = make()
    try:
        if not isinstance(backend, CountsRequests):
            return
        for asked in (request, replace(request, system="Be brief.", prompt=request.prompt + " Thank you." * 50)):
            counted, result = backend.count_request(asked), await backend.generate(asked)
            assert type(counted) is int and counted > 0, f"count_request answered {counted!r}"
            apart = abs(counted - max(0, result.tokens_in))
            assert not result.tokens_in or apart <= counted / 50 + 4, f"counted {counted}, reported {result.tokens_in}"
    finally:
        await backend.close()


async def check_tokenizers_agree(make: Make, request: LLMRequest) -> None:
    """Whatever else counts for it, a tokenizer or its server, counts what ``count_tokens`` does, to 10 % (50 %)."""
    backend = make()
    try:
        share = APART if backend.capabilities.exact_counts else ROUGHLY_APART
        own = [backend.count_tokens(text) for text in TEXTS]
        others: dict[str, list[int]] = {}
        if isinstance(backend, CountsTokens):
            others["count_batch"] = list(await backend.count_batch(TEXTS))
        if isinstance(backend, LoadsTokenizer):
            tokenizer = await asyncio.to_thread(backend.load_tokenizer)
            others["the tokenizer"] = [tokenizer.count(text) for text in TEXTS]
        for who, counts in others.items():
            assert len(counts) == len(TEXTS), f"{who} counted {len(counts)} of {len(TEXTS)} texts"
            for text, mine, other in zip(TEXTS, own, counts, strict=True):
                assert type(other) is int and other >= 0, f"{who} counted {other!r}"
                assert abs(mine - other) <= mine * share + 8, (
                    f"{who} counts {other}, count_tokens {mine}: {text[:30]!r}"
                )
    finally:
        await backend.close()


async def check_health_is_told(make: Make, request: LLMRequest) -> None:
    """One that answers is well, before and after a call; and a closed one can be asked, too."""
    backend = make()
    try:
        if not isinstance(backend, ChecksHealth):
            return
        for _ in range(2):
            health: object = await backend.health()
            assert isinstance(health, Health), f"health answered {health!r}"
            assert health.ok is True, f"it can answer and is not well: {health.detail}"
            await backend.generate(request)
        await backend.close()
        assert isinstance(await backend.health(), Health), "a closed backend does not say how it is"
    finally:
        await backend.close()


async def check_identity_is_constant(make: Make, request: LLMRequest) -> None:
    """It says which model answers, the same before and after a call."""
    backend = make()
    try:
        if not isinstance(backend, Identifies):
            return
        before: object = await backend.identity()
        assert isinstance(before, ModelIdentity) and before.model_id, f"identity answered {before!r}"
        assert type(before.context_tokens) is int and before.context_tokens >= 0, (
            f"{before.context_tokens!r} of context"
        )
        await backend.generate(request)
        after = await backend.identity()
        assert after == before, f"{before} became {after}"
    finally:
        await backend.close()


async def check_warming_can_be_repeated(make: Make, request: LLMRequest) -> None:
    """It can be warmed up, more than once and after a call, and answers then."""
    backend = make()
    try:
        if not isinstance(backend, Warms):
            return
        await backend.warm()
        await backend.warm()
        await backend.generate(request)
        await backend.warm()
    finally:
        await backend.close()


async def _answer(make: Make, request: LLMRequest) -> LLMResult:
    backend = make()
    try:
        return await backend.generate(request)
    finally:
        await backend.close()


async def _within(work: Awaitable[None], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await work
