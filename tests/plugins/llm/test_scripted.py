"""The scripted backend plays what it was given and counts by its rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework import timeloop
from apex_framework.errors import BackendError
from apex_framework.interfaces import LLMRequest, LLMResult, LLMStatus
from apex_framework.testing.scripted import ManualClock, ScriptedBackend, cut, rule_of_four


def play(answers, n=1, **options):
    async def work():
        backend = ScriptedBackend(answers, **options)
        return [await backend.generate(LLMRequest(f"prompt {i}", 30, seed=i)) for i in range(n)]

    return timeloop.run(work())


def test_one_text_a_list_a_generator_a_function():
    assert [r.text for r in play("same", 2)] == ["same", "same"]
    assert [r.text for r in play(["one", "two"], 2)] == ["one", "two"]
    assert [r.text for r in play((f"n{i}" for i in range(9)), 2)] == ["n0", "n1"]
    assert [r.text for r in play(lambda request: f"seed {request.seed}", 2)] == ["seed 0", "seed 1"]


def test_results_pass_untouched_and_exceptions_are_raised():
    lie = LLMResult("x", -1, 10**9)
    assert play([lie]) == [lie]
    with pytest.raises(BackendError, match="down"):
        play([BackendError("down")])
    with pytest.raises(BackendError, match="over"):
        play(["only one"], 2)


def test_it_says_what_it_is():
    assert ScriptedBackend("x").capabilities.deterministic
    assert ScriptedBackend(lambda request: "x").capabilities.deterministic
    assert not ScriptedBackend(["x"]).capabilities.deterministic
    assert not ScriptedBackend().capabilities.is_llm


@given(text=st.text(max_size=200), limit=st.integers(1, 60))
def test_a_cut_text_fits_and_is_a_beginning(text, limit):
    short = cut(text, limit)
    assert text.startswith(short) and (not short or rule_of_four(short) <= limit)
    assert short == text if rule_of_four(text) <= limit else len(short) < len(text)


def test_a_long_answer_says_that_it_was_cut():
    (result,) = play("word " * 100)
    assert result.status is LLMStatus.LENGTH and result.tokens_out == 30


def test_a_manual_clock_moves_only_when_told():
    clock = ManualClock(5.0, wall=100.0)
    clock.advance(1.5)
    assert (clock.monotonic(), clock.wall()) == (6.5, 101.5)
    with pytest.raises(ValueError, match="back"):
        clock.advance(-1)
