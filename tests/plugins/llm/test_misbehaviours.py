"""F28 to F32, F34: whatever a server does, a call ends in time, as what it is, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from apex_framework.budget import Guard, Ledger
from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import CallTags, LLMBackend, LLMRequest, LLMResult, LLMStatus
from apex_framework.ports import LoopClock
from apex_framework.services import LLMService
from apex_framework.testing.servers import MISBEHAVIOURS, FaultServer

pytest.importorskip("aiohttp", reason="the extra [http] is not installed")
pytest.importorskip("ollama", reason="the extra [ollama] is not installed")

CONNECT_S, FIRST_S, IDLE_S, TOTAL_S = 0.15, 0.2, 0.15, 0.3
GRACE_S = 0.25
REQUEST = LLMRequest("Name the seven days of the week. " * 3, 48, seed=7)

OK = "ok"
LATE = (Failure.TOTAL_TIMEOUT,)
CUT = (Failure.TRUNCATED,)
BAD = (Failure.MALFORMED,)
GARBLED = (Failure.MALFORMED, Failure.TRUNCATED)
WHOLE: dict[str, object] = {
    **dict.fromkeys([n for n in MISBEHAVIOURS if n.startswith("rate_limited")], (Failure.RATE_LIMITED,)),
    **dict.fromkeys(["server_error", "bad_gateway"], (Failure.SERVER,)),
    "unavailable": (Failure.UNAVAILABLE,),
    **dict.fromkeys(["unauthorized", "forbidden"], (Failure.AUTH,)),
    **dict.fromkeys(["no_such_model", "wrong_url", "redirects"], (Failure.NOT_FOUND,)),
    "context_exceeded": (Failure.CONTEXT_EXCEEDED,),
    **dict.fromkeys(["refused", "never_accepts"], (Failure.CONNECT,)),
    **dict.fromkeys(["closes", "resets", "resets_midway"], CUT),
    **dict.fromkeys(["silent", "half_open", "stalls", "drips"], LATE),
    **dict.fromkeys(["length_too_long", "no_last_chunk"], CUT),
    **dict.fromkeys(["length_too_short", "cut_json", "bad_chunk", "no_http"], GARBLED),
    **dict.fromkeys(["gzip_bomb", "long_line", "bad_utf8", "wrong_type", "list", "nested", "no_text"], BAD),
    **dict.fromkeys(["endless", "endless_head"], BAD + LATE),
    "error_inside": (Failure.SERVER, Failure.MALFORMED),
    "unloads": (Failure.UNLOADED,),
    **dict.fromkeys(["too_much", "usage_missing", "usage_zero", "usage_low", "usage_absurd", "usage_negative"], OK),
    **dict.fromkeys(["usage_no_number", "usage_nan"], OK),
}
STREAM: dict[str, object] = {
    **WHOLE,
    **dict.fromkeys(["silent", "half_open", "drips", "only_comments", "blank_lines"], (Failure.FIRST_TOKEN_TIMEOUT,)),
    **dict.fromkeys(["stalls", "comments_midway"], (Failure.IDLE_TIMEOUT,)),
    "cut_json": (Failure.INCOMPLETE, Failure.MALFORMED),
    "length_too_short": (Failure.INCOMPLETE, *GARBLED),
    "bad_event": BAD,
    **dict.fromkeys(["no_done", "done_only"], (Failure.INCOMPLETE,)),
    "done_twice": OK,
    "text_after_end": BAD,
    "error_inside": (Failure.SERVER,),
}
EXPECTED = {
    # What follows Ollama's last line is not read, and its client refuses counts that are no numbers.
    ("ollama", "text_after_end"): OK,
    ("ollama", "usage_no_number"): BAD,
    ("ollama", "usage_nan"): BAD,
}
CASES = [
    pytest.param(dialect, name, mode, id=f"{dialect}-{name}-{mode}")
    for name, what in MISBEHAVIOURS.items()
    for dialect in what.dialects
    for mode in ("whole", "stream")[what.streams :]
]


@pytest.fixture(scope="module", autouse=True)
def unclosed_sockets_are_told() -> Iterator[None]:
    """What was left to the collector warns when it goes, and a warning is an error."""
    yield
    gc.collect()


def test_there_are_enough_of_them() -> None:
    assert len(MISBEHAVIOURS) >= 25
    assert set(MISBEHAVIOURS) == set(STREAM)


def backend(dialect: str, url: str, pace: float = 1.0) -> LLMBackend:
    stages = {"connect_s": CONNECT_S, "first_token_s": FIRST_S, "idle_s": IDLE_S, "total_s": TOTAL_S}
    options = {stage: seconds * pace for stage, seconds in stages.items()}
    if dialect == "ollama":
        from apex_llm.ollama import OllamaBackend

        return OllamaBackend("tiny", base_url=url, **options)
    from apex_llm.openai import OpenAIBackend

    return OpenAIBackend("tiny", base_url=url, **options)


async def call(model: LLMBackend, mode: str) -> LLMResult:
    if mode == "whole":
        return await model.generate(REQUEST)
    found = None
    async for chunk in model.stream(REQUEST):
        found = chunk.result or found
    assert found is not None, "a stream without a result"
    return found


class OneScope:
    name, parent = "episode", None

    def key(self, tags: CallTags) -> str:
        return tags.episode_id

    def limits(self, tags: CallTags):
        from apex_framework.interfaces import Limits

        return Limits(tags.token_budget)


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """What is inside takes at most so long and ``GRACE_S``; time in which this machine ran nothing does not count."""
    stolen = 0.0

    async def measure() -> None:
        nonlocal stolen
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.01)
            stolen += max(0.0, time.perf_counter() - before - 0.02)

    meter = asyncio.create_task(measure())
    begun = time.perf_counter()
    try:
        yield
    finally:
        taken = time.perf_counter() - begun
        meter.cancel()
        await asyncio.gather(meter, return_exceptions=True)
    assert taken - stolen <= seconds + GRACE_S, f"it took {taken:.3f} s where {seconds:g} were allowed"


async def nothing_is_left(model: LLMBackend, server: FaultServer) -> None:
    await model.close()
    assert model.pool_numbers()["pool_conn_in_use"] == 0
    for _ in range(4000):  # the server learns of it from its own thread
        if not server.open and len(asyncio.all_tasks()) == 1:
            break
        await asyncio.sleep(0.005)
    assert server.open == 0, "a connection is still open"
    assert len(asyncio.all_tasks()) == 1, f"tasks are left: {asyncio.all_tasks()}"


@pytest.mark.parametrize(("dialect", "name", "mode"), CASES)
def test_f28_f34_every_misbehaviour_ends_typed_in_time_and_leaves_nothing(dialect: str, name: str, mode: str) -> None:
    """A machine that is busy elsewhere may keep a sound server silent for 0.15 s: then all of it again, ten times slower."""
    try:
        misbehave(dialect, name, mode)
    except AssertionError:
        misbehave(dialect, name, mode, pace=10.0)


def misbehave(dialect: str, name: str, mode: str, pace: float = 1.0) -> None:
    expected = EXPECTED.get((dialect, name), (WHOLE if mode == "whole" else STREAM)[name])

    async def directly(server: FaultServer) -> None:
        model = backend(dialect, server.url, pace)
        async with within(TOTAL_S * pace):
            try:
                result = await call(model, mode)
            except BackendError as error:
                assert expected != OK and error.kind in expected, f"{error.kind}: {error}"
                assert "\n" not in str(error) and error.remedy
                assert not (error.retryable and error.partial), "asked again, it would be charged twice"
            else:
                assert expected == OK, f"it went well: {result}"
                counts = (result.tokens_in, result.tokens_out)
                assert all(type(n) is int and n > 0 for n in counts), f"counts are {counts}"
        await nothing_is_left(model, server)

    async def through_the_service(server: FaultServer) -> None:
        model, ledger = backend(dialect, server.url, pace), Ledger()
        clock = LoopClock(asyncio.get_running_loop())
        stages = {"first_token_s": FIRST_S * pace, "idle_s": IDLE_S * pace} if mode == "stream" else {}
        guard = Guard(ledger, [OneScope()], clock=clock)
        service = LLMService({"*": model}, guard, clock=clock, retries=1, deadline_s=TOTAL_S * pace, **stages)
        tags = CallTags("run", "ep", "a1", "coder", 10_000)
        async with within(TOTAL_S * pace):
            result = await service.ask(tags, REQUEST.prompt, max_tokens=48)
        assert isinstance(result, LLMResult)
        if name == "endless" and mode == "stream":  # the service cuts an answer at max_tokens
            assert result.status in (LLMStatus.LENGTH, LLMStatus.TIMEOUT) and result.tokens_out >= 48, result
        elif expected == OK:
            assert result.status in (LLMStatus.OK, LLMStatus.LENGTH), result
            assert result.tokens_in >= 10, "a prompt that was counted low is charged in full"
            assert result.tokens_out >= (48 if name == "too_much" else 1)
        else:
            assert result.status in (LLMStatus.ERROR, LLMStatus.TIMEOUT) and result.error, result
        balance = ledger.balance("episode:ep")
        assert balance.reserved == 0 and not ledger.open
        await service.close()
        await nothing_is_left(model, server)

    with FaultServer(name, dialect=dialect) as server:
        asyncio.run(directly(server))
        asyncio.run(through_the_service(server))


def test_f31_an_absurd_answer_is_counted_by_the_service() -> None:
    """10^15 reported tokens are a lie; the answer's own length is charged."""

    async def work(server: FaultServer) -> LLMResult:
        model = backend("openai", server.url)
        result = await model.generate(REQUEST)
        await model.close()
        return result

    with FaultServer("usage_absurd") as server:
        assert asyncio.run(work(server)).tokens_out < 10


def _no_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the total deadline holds."""
    from apex_llm.deadlines import Waiting

    whole = Waiting.__init__
    monkeypatch.setattr(Waiting, "__init__", lambda self, limits, **_: whole(self, limits, stream=False))


def _any_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the server reports is believed."""
    from apex_llm import openai_form

    monkeypatch.setattr(openai_form, "count", lambda value: isinstance(value, int))


def _no_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect is an answer like another."""
    from apex_llm import network

    monkeypatch.setattr(network, "_refuse", lambda response: None)


def _any_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream ends where the connection does."""
    from apex_llm.openai import OpenAIBackend

    strict = OpenAIBackend._events

    async def lax(self, reply, waiting):
        try:
            async for data in strict(self, reply, waiting):
                yield data
        except BackendError as error:
            if error.kind is not Failure.INCOMPLETE:
                raise

    monkeypatch.setattr(OpenAIBackend, "_events", lax)


@pytest.mark.parametrize(
    ("bug", "name", "mode"),
    [
        (_no_stages, "stalls", "stream"),
        (_no_stages, "only_comments", "stream"),
        (_any_count, "usage_negative", "whole"),
        (_no_refusals, "redirects", "whole"),
        (_any_end, "no_done", "stream"),
    ],
)
def test_planted_bugs_are_caught(bug, name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        test_f28_f34_every_misbehaviour_ends_typed_in_time_and_leaves_nothing("openai", name, mode)
