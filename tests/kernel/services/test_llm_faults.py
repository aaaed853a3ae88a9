"""F28-F34 and every named misbehaviour: typed, ended in time, charged, settled once, nothing left behind."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.errors import BackendError, Failure
from apex_framework.interfaces import LLMRequest, LLMStatus
from apex_framework.services import Breakers, BreakerSettings
from apex_framework.services.retrying import retry_after_s
from apex_framework.testing.misbehaviour import DEADLINE_S, EXPECTED, complaints, misbehave
from apex_framework.testing.unruly import MISBEHAVIOURS, STREAMED, TEXT

MODES = [(streamed, staged) for streamed in (False, True) for staged in (False, True)]
NOW = 1_700_000_000.0


@pytest.mark.parametrize("how", ["", *MISBEHAVIOURS])
@pytest.mark.parametrize(("streamed", "staged"), MODES)
def test_a_misbehaviour_is_typed_and_bounded_and_settled_once(how: str, streamed: bool, staged: bool) -> None:
    assert complaints(misbehave(how, streamed=streamed, staged=staged)) == []


def test_there_are_enough_misbehaviours_and_each_expectation_is_of_one() -> None:
    assert len(MISBEHAVIOURS) >= 40 and set(EXPECTED) <= set(MISBEHAVIOURS) and set(MISBEHAVIOURS) >= STREAMED


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    how=st.sampled_from(["", *MISBEHAVIOURS]),
    streamed=st.booleans(),
    staged=st.booleans(),
    times=st.integers(0, 3),
    seed=st.integers(0, 50),
    breaker=st.booleans(),
)
def test_a_backend_that_misbehaves_for_a_while_is_bounded_and_settled_all_the_same(
    how: str, streamed: bool, staged: bool, times: int, seed: int, breaker: bool
) -> None:
    breakers = Breakers(BreakerSettings(failures=2, rest_s=0.2)) if breaker else None
    found = misbehave(how, streamed=streamed, staged=staged, times=times, seed=seed, breakers=breakers)
    if not found.answer.failure and found.calls > times:
        assert found.answer.text == TEXT and found.used == 115
    else:
        unexpected = [told for told in complaints(found) if not told.startswith("told")]
        assert unexpected == []


# --- F28: 429 and Retry-After -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        (" 2.5 ", 2.5),
        (7, 7.0),
        ("-1", 0.0),
        ("0", 0.0),
        ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0),
        ("Tue, 14 Nov 2023 22:13:30 -0000", 10.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("9" * 400, math.inf),
        (10**400, math.inf),
        ("1e999", math.inf),
        ("nan", None),
        ("soon", None),
        ("", None),
        (None, None),
        (True, None),
        (b"3", None),
        ("Tue, 99 Nov 2023 22:13:30 GMT", None),
    ],
)
def test_f28_retry_after_is_seconds_or_a_date_or_nothing(value: object, seconds: float | None) -> None:
    assert retry_after_s(value, wall_s=NOW) == seconds


@given(st.one_of(st.text(max_size=40), st.floats(), st.integers(), st.none(), st.booleans()))
def test_f28_no_retry_after_is_negative_or_no_number(value: object) -> None:
    found = retry_after_s(value, wall_s=NOW)
    assert found is None or found >= 0


@pytest.mark.parametrize("streamed", [False, True])
def test_f28_a_busy_server_is_left_alone_for_as_long_as_it_asks_and_no_longer_than_there_is_time(
    streamed: bool,
) -> None:
    found = misbehave("busy", times=2, streamed=streamed)
    assert found.answer.text == TEXT and found.calls == 3 and 2.0 <= found.seconds < 2.2 and found.used == 115
    late = misbehave("busy", times=2, streamed=streamed, deadline_s=1.5)
    assert late.answer.failure == Failure.RATE_LIMITED and late.calls == 2 and late.used == 0
    assert late.seconds < 1.5
    absurd = misbehave("busy_for_ever", times=1, streamed=streamed)
    assert absurd.calls == 1 and absurd.seconds < 0.1 and absurd.answer.failure == Failure.RATE_LIMITED


@pytest.mark.parametrize("how", ["busy_until", "busy_nonsense"])
def test_f28_a_retry_after_that_says_nothing_leaves_the_usual_pause(how: str) -> None:
    found = misbehave(how, times=1)
    assert found.answer.text == TEXT and found.calls == 2 and found.seconds < 0.4


# --- F29: 5xx and no connection ----------------------------------------------------------------


def test_f29_only_what_cannot_have_been_charged_is_asked_again() -> None:
    asked = {how: misbehave(how, times=1).calls for how in ("fails", "overloaded", "refuses", "dies", "wrong_key")}
    assert asked == {"fails": 1, "overloaded": 2, "refuses": 2, "dies": 1, "wrong_key": 1}


@pytest.mark.parametrize("how", ["refuses", "fails", "never_answers"])
def test_f29_a_backend_that_keeps_failing_is_left_alone_and_probed(how: str) -> None:
    breakers = Breakers(BreakerSettings(failures=1, rest_s=1_000.0, most_rest_s=1_000.0))
    breaker = breakers.of(object())
    assert breaker is not breakers.of(breakers)
    shared = _SharedBreakers(breaker)
    assert misbehave(how, breakers=shared, retries=0).calls == 1
    refused = misbehave("", breakers=shared)
    assert refused.calls == 0 and refused.used == 0 and refused.answer.failure == Failure.CIRCUIT_OPEN


class _SharedBreakers:
    """One breaker for whatever backend there is."""

    def __init__(self, breaker: object) -> None:
        self._breaker = breaker

    def of(self, backend: object) -> object:
        return self._breaker


# --- F30: half-open, stalled, kept alive, dripping ----------------------------------------------


@pytest.mark.parametrize(
    ("how", "failure", "seconds"),
    [
        ("no_first_token", Failure.FIRST_TOKEN_TIMEOUT, 1.0),
        ("keeps_alive", Failure.FIRST_TOKEN_TIMEOUT, 1.0),
        ("stalls", Failure.IDLE_TIMEOUT, 0.84),
        ("drips", Failure.TOTAL_TIMEOUT, 5.0),
    ],
)
def test_f30_each_stage_of_a_stream_has_its_deadline(how: str, failure: Failure, seconds: float) -> None:
    for streamed in (False, True):
        found = misbehave(how, streamed=streamed, staged=True)
        assert found.answer.status is LLMStatus.TIMEOUT and found.answer.failure == failure
        assert found.seconds == pytest.approx(seconds, abs=0.01) and found.used == 120


@pytest.mark.parametrize("how", ["ignores_cancellation", "ignores_everything", "tidies_up_for_ever", "never_closes"])
def test_f30_what_will_not_end_is_left_behind(how: str) -> None:
    for streamed, staged in MODES:
        found = misbehave(how, streamed=streamed, staged=staged)
        assert found.seconds <= DEADLINE_S + 0.25 and found.running == found.tasks == found.timers == 0


def test_f30_a_call_in_a_thread_is_not_waited_for() -> None:
    import threading

    from apex_budgets.episode import EpisodeScope
    from apex_framework.budget import Guard, Ledger
    from apex_framework.interfaces import CallTags, LLMResult
    from apex_framework.ports import LoopClock
    from apex_framework.services import LLMService
    from apex_framework.testing.unruly import UnrulyBackend

    free = threading.Event()

    class Blocking(UnrulyBackend):
        def __init__(self) -> None:
            super().__init__("")

        async def generate(self, request: LLMRequest) -> LLMResult:
            await asyncio.to_thread(free.wait, 30)
            raise BackendError("late")

    async def work() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        guard = Guard(Ledger(), [EpisodeScope()], clock=clock)
        service = LLMService({"*": Blocking()}, guard, clock=clock, deadline_s=0.05)
        answer = await service.generate(CallTags("r", "ep1", "a", "coder", 1_000), LLMRequest("p", 10))
        assert answer.failure == Failure.TOTAL_TIMEOUT and guard.ledger.open == ()
        free.set()

    asyncio.run(work())


# --- F31: cut off, without an end, unreadable, without usage -------------------------------------


def test_f31_a_stream_that_breaks_off_is_charged_what_had_come() -> None:
    for how, failure, used in (
        ("no_result", Failure.INCOMPLETE, 115),
        ("breaks_off", Failure.TRUNCATED, 107),
        ("retryable_too_late", Failure.TRUNCATED, 107),
        ("garbage", Failure.MALFORMED, 120),
    ):
        found = misbehave(how, streamed=True)
        assert (found.answer.failure, found.used, found.calls) == (failure, used, 1)


@pytest.mark.parametrize("how", ["no_usage", "credits", "understates", "absurd_usage"])
def test_f31_usage_that_cannot_be_true_is_counted_by_us(how: str) -> None:
    for streamed, staged in MODES:
        found = misbehave(how, streamed=streamed, staged=staged)
        assert (found.answer.text, found.used) == (TEXT, 115)


def test_f31_a_usage_above_the_truth_is_charged_as_it_stands() -> None:
    assert misbehave("overstates").used == 140


# --- F32: an answer after the cancellation ---------------------------------------------------------


@pytest.mark.parametrize("how", ["answers_when_cancelled", "fails_when_cancelled"])
def test_f32_an_answer_after_cancellation_is_dropped_and_charged(how: str) -> None:
    for streamed, staged in MODES:
        found = misbehave(how, streamed=streamed, staged=staged)
        assert found.answer.text == found.text == "" and found.used == 120
        assert found.answer.status is LLMStatus.TIMEOUT and found.calls == 1


# --- F33, F34: worker gone, model unloaded -----------------------------------------------------------


def test_f33_a_worker_that_dies_fails_its_call_typed_and_the_next_one_works() -> None:
    found = misbehave("dies")
    assert found.answer.failure == Failure.WORKER_DIED and found.calls == 1 and found.used == 100


def test_f34_a_model_that_was_unloaded_is_asked_once_more() -> None:
    back = misbehave("unloaded", times=1)
    assert back.answer.text == TEXT and back.calls == 2 and back.used == 115
    gone = misbehave("unloaded", retries=5)
    assert gone.answer.failure == Failure.UNLOADED and gone.calls == 2 and gone.used == 0
