"""A model call: estimate, policies, reservation, call under a deadline, settlement; whatever happens, once each."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_budgets.episode import EpisodeScope
from apex_budgets.role import RoleScope
from apex_framework import timeloop
from apex_framework.budget import Guard, Ledger
from apex_framework.errors import BackendError, ConfigError
from apex_framework.events import CallAnswered, CallDenied, CallSettled
from apex_framework.interfaces import CallTags, Denied, LLMCapabilities, LLMRequest, LLMResult, LLMStatus, Point, Ruling
from apex_framework.ports import LoopClock
from apex_framework.services import LLMService
from apex_framework.testing.scripted import ScriptedBackend, rule_of_four

TAGS = CallTags("run1", "ep1", "coder1", "coder", 10_000)
PROMPT = "p" * 399  # 100 tokens by the rule of four
ANSWER = "a" * 39  # 10


class Desk:
    """A service on the running loop with everything in view."""

    def __init__(self, backends, *, scopes=None, safety=1.0, **options):
        clock = LoopClock(asyncio.get_running_loop())
        self.guard = Guard(Ledger(), scopes or [EpisodeScope()], safety=safety, clock=clock)
        self.events = []
        backends = backends if isinstance(backends, dict) else {"*": backends}
        self.service = LLMService(backends, self.guard, clock=clock, on_event=self.events.append, **options)

    async def ask(self, prompt=PROMPT, *, max_tokens=50, tags=TAGS, **more):
        return await self.service.ask(tags, prompt, max_tokens=max_tokens, **more)

    @property
    def used(self):
        return self.guard.ledger.used("episode:ep1")

    @property
    def reserved(self):
        return self.guard.ledger.reserved("episode:ep1")


def virtual(work):
    """Run ``work()`` on virtual time; (its result, seconds that passed)."""

    async def timed():
        loop = asyncio.get_running_loop()
        result = await work()
        return result, loop.time()

    return timeloop.run(timed())


def one(backend, **options):
    """One call on a desk of its own: (answer, desk, virtual seconds)."""
    ask = {k: options.pop(k) for k in ("max_tokens", "tags", "message_tokens_text", "purpose", "seed") if k in options}

    async def work():
        desk = Desk(backend, **options)
        return await desk.ask(**ask), desk

    (answer, desk), seconds = virtual(work)
    return answer, desk, seconds


def test_a_call_is_reserved_settled_and_told():
    backend = ScriptedBackend(ANSWER, latency_ms=250.0)
    answer, desk, seconds = one(backend, purpose="repair", seed=5, message_tokens_text="m" * 39)
    assert answer == LLMResult(ANSWER, 100, 10, latency_ms=250.0)
    assert (desk.used, desk.reserved, seconds) == (110, 0, 0.25)
    assert desk.events == [CallSettled("ep1", "coder1", "coder", "repair", "ok", 150, 100, 10, 10, 100)]
    (request,) = backend.requests
    assert (request.temperature, request.top_p, request.seed, request.max_tokens) == (0.0, 1.0, 5, 50)


def test_role_decides_the_backend():
    async def work():
        desk = Desk({"coder": ScriptedBackend("one"), "*": ScriptedBackend("other")})
        return [(await desk.ask(tags=replace(TAGS, role=role))).text for role in ("coder", "critic")]

    assert virtual(work)[0] == ["one", "other"]


def test_denial_is_an_answer_and_costs_nothing():
    backend = ScriptedBackend(ANSWER)
    answer, desk, _ = one(backend, scopes=[RoleScope({"coder": 149}), EpisodeScope()], purpose="repair")
    assert answer == Denied({"role": "tok_headroom"}, {"episode": 10_000, "role": 149}, 150)
    assert backend.requests == [] and desk.used == desk.reserved == 0
    assert desk.events == [CallDenied("ep1", "coder1", "coder", "repair", 150, answer.reasons, answer.remaining)]


def test_output_is_bounded_by_what_was_reserved():
    answer, desk, _ = one(ScriptedBackend("a" * 4_000), max_tokens=7)
    assert answer.status is LLMStatus.LENGTH and answer.tokens_out == 7 and desk.used == 107


@pytest.mark.parametrize(
    ("result", "tokens_in", "tokens_out"),
    [
        (LLMResult(ANSWER, 90, 9), 90, 9),
        (LLMResult(ANSWER, -1, 9), 100, 9),
        (LLMResult(ANSWER, 0, 0), 100, 10),
        (LLMResult(ANSWER, None, None), 100, 10),
        (LLMResult(ANSWER, 90, -5), 90, 10),
        (LLMResult(ANSWER, 90.5, True), 100, 10),
        (LLMResult(ANSWER, 90, 51), 90, 51),
        (LLMResult("a" * 399, 90, 5), 90, 100),
        (LLMResult("", 90, 0), 90, 0),
        (LLMResult("", 90, 30, LLMStatus.TIMEOUT), 90, 30),
        (LLMResult("", 0, 0, LLMStatus.TIMEOUT), 100, 50),
        (LLMResult("", 0, 0, LLMStatus.ERROR), 100, 0),
    ],
)
def test_usage_that_cannot_be_true_is_not_believed(result, tokens_in, tokens_out):
    answer, desk, _ = one(ScriptedBackend([result]))
    assert (answer.tokens_in, answer.tokens_out, desk.used) == (tokens_in, tokens_out, tokens_in + tokens_out)
    assert bool(desk.guard.ledger.violations) is (tokens_in + tokens_out > 150)
    assert desk.events[0].tokens_in + desk.events[0].tokens_out == desk.used


def test_overspending_blocks_the_next_call():
    async def work():
        desk = Desk(ScriptedBackend([LLMResult("a" * 400, 100, 101), "more"]))
        tags = replace(TAGS, token_budget=150)
        return await desk.ask(tags=tags), await desk.ask("", max_tokens=1, tags=tags), desk

    (first, second, desk), _ = virtual(work)
    assert first.tokens_out == 101 and isinstance(second, Denied)
    assert desk.guard.ledger.violations[0].over_limit == 51


@pytest.mark.parametrize(
    ("error", "charged"),
    [
        (BackendError("model not found"), 100),
        (ValueError("bug"), 100),
        (BackendError("busy", retryable=True), 0),
    ],
)
def test_a_failure_is_a_result_and_charged_by_what_may_have_been_used(error, charged):
    answer, desk, _ = one(ScriptedBackend([error] * 3))
    assert answer.status is LLMStatus.ERROR and str(error) in answer.error
    assert (desk.used, desk.reserved, desk.events[0].status) == (charged, 0, "error")


def test_only_retryable_errors_are_tried_again_after_a_pause():
    backend = ScriptedBackend([BackendError("busy", retryable=True)] * 2 + [ANSWER])
    answer, desk, seconds = one(backend)
    assert answer.text == ANSWER and len(backend.requests) == 3 and desk.used == 110
    assert 0 < seconds < 0.6
    backend = ScriptedBackend([BackendError("broken"), ANSWER])
    assert one(backend)[0].status is LLMStatus.ERROR and len(backend.requests) == 1


def test_pauses_are_the_same_for_the_same_seed():
    def seconds(seed):
        return one(ScriptedBackend([BackendError("busy", retryable=True)] * 2 + [ANSWER]), seed=seed)[2]

    assert seconds(1) == seconds(1) != seconds(2)


def test_a_timeout_is_charged_in_full():
    answer, desk, seconds = one(ScriptedBackend(ANSWER, latency_ms=60_001.0), safety=1.2)
    assert (answer.status, seconds) == (LLMStatus.TIMEOUT, 60.0)
    assert (desk.used, desk.reserved, answer.tokens_in, answer.tokens_out) == (170, 0, 100, 70)
    assert desk.events[0].status == "timeout" and desk.guard.ledger.violations == ()


def test_a_timeout_between_attempts_costs_nothing():
    answer, desk, seconds = one(
        ScriptedBackend([BackendError("busy", retryable=True)] * 9), retries=8, deadline_s=0.001, seed=3
    )
    assert (answer.status, desk.used, seconds) == (LLMStatus.TIMEOUT, 0, 0.001)


def test_cancellation_passes_and_settles():
    async def work():
        desk = Desk(ScriptedBackend([ANSWER], latency_ms=5_000.0))
        call = asyncio.create_task(desk.ask())
        await asyncio.sleep(1.0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return desk

    desk, _ = virtual(work)
    assert (desk.used, desk.reserved, [e.status for e in desk.events]) == (150, 0, ["cancelled"])


def test_a_reservation_outlives_its_ttl_while_its_call_lives():
    answer, desk, seconds = one(ScriptedBackend([ANSWER], latency_ms=45_000.0))
    assert answer.text == ANSWER and seconds == 45.0
    assert desk.guard.ledger.expired == 0 and desk.used == 110
    assert answer.latency_ms == 45_000.0


def test_calls_at_a_time_never_share_the_same_tokens():
    async def work():
        desk = Desk(ScriptedBackend(ANSWER, latency_ms=100.0))
        tags = replace(TAGS, token_budget=450)
        answers = await asyncio.gather(*(desk.ask(tags=tags) for _ in range(5)))
        return [type(a) for a in answers], desk

    (kinds, desk), _ = virtual(work)
    assert kinds == [LLMResult] * 3 + [Denied] * 2 and desk.used == 330


def test_messages_can_be_free():
    heard = "m" * 159
    answer, desk, _ = one(ScriptedBackend(ANSWER), free_messages=True, message_tokens_text=heard)
    assert rule_of_four(heard) == 40
    assert (desk.used, answer.tokens_in) == (70, 60)
    assert (desk.events[0].reserved, desk.events[0].message_tokens) == (110, 0)


class Rule:
    """A policy of a stranger."""

    name = "rule"

    def __init__(self, ruling):
        self.ruling, self.seen = ruling, []

    def check(self, subject):
        self.seen.append(subject)
        if isinstance(self.ruling, Exception):
            raise self.ruling
        return self.ruling


@pytest.mark.parametrize(
    ("ruling", "reason"),
    [
        (Ruling(False, "too_long"), "policy:too_long"),
        (Ruling(False), "policy:denied"),
        (ValueError("bug"), "policy:policy_error"),
        (True, "policy:policy_error"),
        (None, "policy:policy_error"),
    ],
)
def test_a_policy_denies_before_anything_is_reserved(ruling, reason):
    backend, rule = ScriptedBackend(ANSWER), Rule(ruling)
    answer, desk, _ = one(backend, policies=[Rule(Ruling(True)), rule])
    assert answer == Denied({"rule": reason}, {"episode": 10_000}, 150)
    assert backend.requests == [] and desk.guard.ledger.entries == () and isinstance(desk.events[0], CallDenied)
    assert rule.seen[0].role == "coder" and rule.seen[0].request.prompt == PROMPT


class Around:
    """An interceptor of a stranger: notes who passes, then does what it was given."""

    points = frozenset({Point.MODEL_CALL})

    def __init__(self, name, log, act=None):
        self.name, self.log, self.act = name, log, act

    async def around(self, passing, proceed):
        self.log.append(self.name)
        answer = await (self.act(passing, proceed) if self.act else proceed(passing))
        self.log.append(f"/{self.name}")
        return answer


def test_interceptors_stand_around_in_order_and_may_change_the_request():
    log = []

    async def shorten(passing, proceed):
        return await proceed(replace(passing, subject=replace(passing.subject, prompt="p", max_tokens=5)))

    elsewhere = Around("elsewhere", log)
    elsewhere.points = frozenset({Point.SEND, Point.TOOL_CALL})
    answer, desk, _ = one(
        ScriptedBackend(ANSWER), interceptors=[Around("outer", log), elsewhere, Around("inner", log, shorten)]
    )
    assert log == ["outer", "inner", "/inner", "/outer"]
    assert (answer.text, desk.events[0].reserved, desk.used) == ("a" * 19, 6, 6)


def test_an_interceptor_may_answer_instead_at_no_cost():
    async def instead(passing, proceed):
        return LLMResult("cached", 0, 0)

    answer, desk, _ = one(ScriptedBackend(ANSWER), interceptors=[Around("cache", [], instead)])
    assert answer.text == "cached" and desk.guard.ledger.entries == ()
    assert desk.events == [CallAnswered("ep1", "coder1", "coder", "", 100, 2)]


async def _twice(passing, proceed):
    await proceed(passing)
    return await proceed(passing)


async def _raise(passing, proceed):
    await proceed(passing)
    raise KeyError("bug")


async def _nonsense(passing, proceed):
    await proceed(passing)
    return "text"


@pytest.mark.parametrize(
    ("act", "said"), [(_twice, "proceeded twice"), (_raise, "KeyError"), (_nonsense, "answered str")]
)
def test_a_broken_interceptor_is_a_failed_call_that_is_charged_once(act, said):
    answer, desk, _ = one(ScriptedBackend(ANSWER), interceptors=[Around("odd", [], act)])
    assert answer.status is LLMStatus.ERROR and said in answer.error
    assert (desk.used, desk.reserved, len(desk.events)) == (110, 0, 1)


class Odd(ScriptedBackend):
    """A backend of a stranger: one thing about it is wrong."""

    def __init__(self, *, answer=ANSWER, count=None, latency_ms=0.0):
        super().__init__(ANSWER)
        self.answer, self.count, self.latency = answer, count, latency_ms

    def count_tokens(self, text):
        return rule_of_four(text) if self.count is None or text == PROMPT else self.count

    async def generate(self, request):
        good = await super().generate(request)
        return replace(good, latency_ms=self.latency) if self.answer is ANSWER else self.answer


@pytest.mark.parametrize(
    ("backend", "charged"),
    [
        (Odd(answer=None), 150),
        (Odd(answer="text"), 150),
        (Odd(answer=LLMResult(None, 1, 1)), 150),
        (Odd(count=-1), 150),
        (Odd(latency_ms="soon"), 150),
        (Odd(latency_ms=-5.0), 110),
    ],
)
def test_an_answer_that_cannot_be_read_is_charged_in_full(backend, charged):
    answer, desk, seconds = one(backend)
    assert (desk.used, desk.reserved, seconds) == (charged, 0, 0.0)
    assert answer.status is (LLMStatus.OK if charged == 110 else LLMStatus.ERROR)


def test_a_backend_that_cannot_count_the_prompt_is_never_called():
    class Blind(ScriptedBackend):
        def count_tokens(self, text):
            raise OSError("no tokenizer")

    backend = Blind(ANSWER)
    answer, desk, _ = one(backend)
    assert answer.status is LLMStatus.ERROR and "no tokenizer" in answer.error
    assert backend.requests == [] and desk.guard.ledger.entries == ()


def test_latency_is_measured_where_the_backend_declares_none():
    class Slow(ScriptedBackend):
        @property
        def capabilities(self):
            return LLMCapabilities("slow", 100, deterministic=False)

        async def generate(self, request):
            await asyncio.sleep(0.5)
            return await super().generate(request)

    answer, _, seconds = one(Slow(ANSWER))
    assert (answer.latency_ms, seconds) == (500.0, 0.5)


def test_time_is_reserved_and_settled_where_it_is_bounded():
    async def work():
        desk = Desk(ScriptedBackend(ANSWER, latency_ms=900.0), scopes=[EpisodeScope(ms=2_000)], deadline_s=1.0)
        answers = [await desk.ask() for _ in range(3)]
        return answers, desk.guard.ledger.balance("episode:ep1")

    (answers, balance), _ = virtual(work)
    assert answers[2].reasons == {"episode": "ms_headroom"} and balance.used_ms == 1_800


def test_impossible_settings_are_named():
    async def work():
        with pytest.raises(ConfigError, match="no backend for any role"):
            Desk({})
        desk = Desk({"critic": ScriptedBackend()})
        with pytest.raises(ConfigError, match="no backend for role 'coder'"):
            await desk.ask()
        for wrong in (0, -1, 1.5, True):
            with pytest.raises(ConfigError, match="max_tokens"):
                await Desk(ScriptedBackend()).ask(max_tokens=wrong)

    virtual(work)


def test_every_backend_is_closed_once():
    class Closing(ScriptedBackend):
        closed = 0

        async def close(self):
            self.closed += 1

    async def work():
        one, two = Closing(), Closing()
        await Desk({"coder": one, "critic": one, "*": two}).service.close()
        return one.closed, two.closed

    assert virtual(work)[0] == (1, 1)


outcomes = st.one_of(
    st.text(max_size=300),
    st.just(BackendError("busy", retryable=True)),
    st.just(BackendError("broken")),
    st.builds(LLMResult, st.text(max_size=60), st.integers(-2, 120), st.integers(-2, 20)),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(script=st.lists(outcomes, max_size=12), budget=st.integers(1, 900), latency=st.floats(0, 90_000))
def test_i4_no_sequence_of_calls_exceeds_the_budget_or_leaves_a_reservation(script, budget, latency):
    async def work():
        desk = Desk(ScriptedBackend(script, latency_ms=latency))
        tags = replace(TAGS, token_budget=budget)
        async with asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(desk.ask(max_tokens=20, tags=tags))
        return desk

    desk, _ = virtual(work)
    ledger = desk.guard.ledger
    spent = sum(e.tokens_in + e.tokens_out for e in desk.events if isinstance(e, CallSettled))
    assert ledger.open == () and len(desk.events) == 6
    assert not ledger.scopes or ledger.used("episode:ep1") == spent
    assert spent <= budget or ledger.violations


def test_a_backend_learns_the_role_that_asks_whichever_way_it_is_asked():
    roles = []

    class Listens(ScriptedBackend):
        async def generate(self, request):
            roles.append(request.role)
            return await super().generate(request)

    async def work():
        desk = Desk(Listens())
        await desk.ask()
        await desk.service.generate(TAGS, LLMRequest(PROMPT, 50))
        await desk.service.generate(TAGS, LLMRequest(PROMPT, 50, role="critic"))

    virtual(work)
    assert roles == ["coder", "coder", "critic"]
