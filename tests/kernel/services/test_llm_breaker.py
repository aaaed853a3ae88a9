"""The breaker opens after failures in a row, lets one probe through at a time, and closes when that went well."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from apex_budgets.episode import EpisodeScope
from apex_framework import timeloop
from apex_framework.budget import Guard, Ledger
from apex_framework.errors import ConfigError, Failure
from apex_framework.interfaces import CallTags, LLMRequest
from apex_framework.ports import LoopClock
from apex_framework.services import Breakers, BreakerSettings, LLMService
from apex_framework.services.breaker import Breaker, State
from apex_framework.testing.unruly import UnrulyBackend

SETTINGS = BreakerSettings(failures=3, rest_s=2.0, most_rest_s=8.0)


class Callers(RuleBasedStateMachine):
    """Calls that begin and end in any order, against a model that is nothing but the rules."""

    breaker_class = Breaker

    def __init__(self) -> None:
        super().__init__()
        self.breaker = self.breaker_class(BreakerSettings(failures=2, rest_s=2.0, most_rest_s=8.0))
        self.now = 0.0
        self.under_way: list[tuple[int, bool]] = []
        """(ticket, whether it is a probe)"""
        self.opened_at: float | None = None

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.9, 2.0, 9.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def begin(self) -> None:
        before = self.breaker.state
        ticket = self.breaker.enter(self.now)
        if before is State.CLOSED:
            assert ticket is not None
        if before is State.HALF_OPEN:
            assert ticket is None
        if ticket is not None:
            self.under_way.append((ticket, before is not State.CLOSED))
        elif before is State.OPEN:
            assert self.opened_at is not None and self.now - self.opened_at < SETTINGS.most_rest_s

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), ok=st.sampled_from([True, False, None]))
    def end(self, data: Any, ok: bool | None) -> None:
        ticket, probe = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        before, opened = self.breaker.state, self.breaker.opened
        self.breaker.leave(ticket, ok, self.now)
        if probe:
            assert before is State.HALF_OPEN
            assert self.breaker.state is (State.CLOSED if ok else State.OPEN)
        if self.breaker.opened > opened:
            assert ok is False
            self.opened_at = self.now

    @invariant()
    def at_most_one_probe_is_under_way(self) -> None:
        probes = sum(probe for _, probe in self.under_way)
        assert probes <= 1 and (probes == 1) == (self.breaker.state is State.HALF_OPEN)


TestCallers = Callers.TestCase
TestCallers.settings = settings(max_examples=80, stateful_step_count=40, deadline=None, derandomize=True)


class Eager(Breaker):
    """A planted bug: everybody may probe."""

    def enter(self, now: float) -> int | None:
        return self._turn if self.state is State.HALF_OPEN else super().enter(now)


class Forgetful(Breaker):
    """A planted bug: a probe that was cancelled is never followed by another."""

    def leave(self, ticket: int, ok: bool | None, now: float) -> None:
        if ok is not None:
            super().leave(ticket, ok, now)


@pytest.mark.parametrize("bug", [Eager, Forgetful])
def test_a_planted_bug_is_caught(bug: type[Breaker]) -> None:
    case = type("Buggy", (Callers,), {"breaker_class": bug}).TestCase
    case.settings = settings(TestCallers.settings, max_examples=300, database=None, phases=[Phase.generate])
    with pytest.raises(AssertionError):
        case("runTest").runTest()


def test_it_opens_rests_longer_after_each_failed_probe_and_closes() -> None:
    breaker = Breaker(SETTINGS)
    for _ in range(3):
        ticket = breaker.enter(0.0)
        assert ticket is not None
        breaker.leave(ticket, False, 0.0)
    now = 0.0
    for rest in (2.0, 4.0, 8.0, 8.0):
        assert breaker.enter(now + rest - 0.01) is None
        now += rest
        probe = breaker.enter(now)
        assert probe is not None and breaker.enter(now) is None
        breaker.leave(probe, False, now)
    probe = breaker.enter(now + 8.0)
    assert probe is not None
    breaker.leave(probe, True, now + 8.0)
    assert breaker.state is State.CLOSED and breaker.opened == 5


def test_a_success_forgets_failures() -> None:
    breaker = Breaker(SETTINGS)
    for ok in (False, False, True, False, False):
        ticket = breaker.enter(0.0)
        assert ticket is not None
        breaker.leave(ticket, ok, 0.0)
    assert breaker.state is State.CLOSED


@pytest.mark.parametrize("wrong", [{"failures": 0}, {"rest_s": 0}, {"rest_s": 100.0}, {"failures": 1.5}])
def test_impossible_settings_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="breaker"):
        BreakerSettings(**wrong)


def test_f29_calls_at_once_are_refused_while_one_probes_and_work_again_after_it() -> None:
    async def work() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        backend = UnrulyBackend("fails", times=3, takes_s=0.5)
        guard = Guard(Ledger(), [EpisodeScope()], clock=clock)
        service = LLMService({"*": backend}, guard, clock=clock, breakers=Breakers(SETTINGS))
        tags = CallTags("r", "ep1", "a", "coder", 100_000)

        async def ask(count: int) -> list[str]:
            answers = await asyncio.gather(*(service.generate(tags, LLMRequest("p", 20)) for _ in range(count)))
            return sorted(str(answer.failure) for answer in answers)

        assert await ask(3) == [Failure.SERVER] * 3
        assert await ask(4) == [Failure.CIRCUIT_OPEN] * 4
        await asyncio.sleep(2.0)
        assert await ask(4) == ["", *[Failure.CIRCUIT_OPEN] * 3]
        assert await ask(4) == [""] * 4
        assert len(backend.requests) == 8 and guard.ledger.open == ()

    timeloop.run(work())


def test_what_a_server_refuses_rightly_opens_nothing() -> None:
    async def work() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        guard = Guard(Ledger(), [EpisodeScope()], clock=clock)
        backend = UnrulyBackend("prompt_too_long")
        service = LLMService({"*": backend}, guard, clock=clock, breakers=Breakers(BreakerSettings(failures=1)))
        for _ in range(3):
            await service.generate(CallTags("r", "ep1", "a", "coder", 1_000), LLMRequest("p", 20))
        assert len(backend.requests) == 3

    timeloop.run(work())
