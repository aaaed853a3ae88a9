"""The backend ``repair``: its contract, its confinement, and that no prompt can upset it."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apex_framework.errors import BackendError
from apex_framework.interfaces import LLMBackend, LLMRequest, LLMResult, LLMStatus
from apex_framework.interfaces.prompting import Ask, Kind, Section, parse_candidates, parse_lines, render_prompt
from apex_framework.testing.llm import check_llm_backend
from apex_repair import plugin
from apex_repair.backend import CONTEXT_TOKENS, RepairBackend, latency_ms, think
from apex_repair.confinement import ConfinementError, confined

SOURCE = """\
def clamp(value, low, high):
    if value <= low:
        return low
    if value > high:
        return low
    return value"""
SECTIONS = (
    Section(Kind.ISSUE, "clamp returns the lower bound for large values"),
    Section(Kind.MAP, "pkg/a.py::clamp 10-15\npkg/a.py::other 20-30"),
    Section(Kind.FUNCTION, SOURCE, "pkg/a.py:10 clamp"),
    Section(Kind.FAILING, "AssertionError: 0 != 9", "tests.test_a.T.test_clamp"),
    Section(Kind.SUSPICIOUS, "pkg/a.py:14 1.00\npkg/a.py:13 0.71"),
)
REPAIR = render_prompt(Ask.REPAIR, SECTIONS, candidates=4)


def generate(prompt: str, max_tokens: int = 500, *, seed: int = 0, stop: tuple[str, ...] = ()) -> LLMResult:
    return asyncio.run(RepairBackend().generate(LLMRequest(prompt, max_tokens, seed=seed, stop=stop)))


def test_it_fulfils_the_contract_of_llm_backends() -> None:
    check_llm_backend(RepairBackend, prompt=REPAIR)


def test_the_plugin_registers_it_as_something_that_is_not_an_llm() -> None:
    added: dict[str, tuple[object, str]] = {}
    plugin.apex_llm_backends(lambda name, factory, *, summary="", requires="": added.update({name: (factory, summary)}))
    factory, summary = added["repair"]
    assert "not an LLM" in summary
    backend = factory()  # type: ignore[operator]  # the factory that the plugin gave
    assert isinstance(backend, LLMBackend)
    assert backend.capabilities.is_llm is False
    assert backend.capabilities.context_tokens == CONTEXT_TOKENS


def test_usage_and_declared_latency_follow_the_counts() -> None:
    result = generate(REPAIR)
    assert result.tokens_in == RepairBackend().count_tokens(REPAIR)
    assert result.latency_ms == latency_ms(result.tokens_in, result.tokens_out)
    assert latency_ms(1000, 100) == 1600.0


def test_fewer_candidates_rather_than_a_cut_one() -> None:
    whole = generate(REPAIR)
    short = generate(REPAIR, max_tokens=whole.tokens_out - 1)
    assert short.status is LLMStatus.OK
    assert parse_candidates(short.text) == parse_candidates(whole.text)[:3]


@pytest.mark.parametrize("limit", [0, 1, 7, 20])
def test_an_answer_that_cannot_fit_is_cut_and_says_so(limit: int) -> None:
    result = generate(REPAIR, max_tokens=limit)
    assert result.status is LLMStatus.LENGTH
    assert result.tokens_out <= limit


def test_stop_strings_end_the_answer() -> None:
    assert ">>>>>>> REPLACE" not in generate(REPAIR, stop=(">>>>>>> REPLACE",)).text


def test_a_prompt_beyond_the_context_is_an_error() -> None:
    with pytest.raises(BackendError, match="context"):
        generate("word " * (CONTEXT_TOKENS + 1))


def test_a_malformed_prompt_is_answered_in_words() -> None:
    result = generate("What is wrong with my code?")
    assert result.status is LLMStatus.OK
    assert "could not read the prompt" in result.text


def test_the_seed_decides_near_ties_only() -> None:
    answers = {generate(REPAIR, seed=seed).text for seed in range(8)}
    assert len(answers) > 1
    assert {generate(REPAIR, seed=3).text for _ in range(3)} == {generate(REPAIR, seed=3).text}


def test_answers_do_not_depend_on_the_hash_seed() -> None:
    program = f"from apex_repair.backend import think\nprint(think({REPAIR!r}, 1), think({LOCATE!r}, 1))"
    answers = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1


LOCATE = render_prompt(Ask.LOCATE, SECTIONS)


# --- confinement -----------------------------------------------------------------------------


def test_files_imports_programs_threads_and_sockets_are_denied_in_the_window(tmp_path: Path) -> None:
    import socket

    attempts = {
        "open": lambda: (tmp_path / "x").write_text("x"),
        "os.listdir": lambda: os.listdir(tmp_path),
        "import": lambda: __import__("this"),
        "subprocess.Popen": lambda: subprocess.run(["true"], check=False),
        "socket.__new__": socket.socket,
        "exec": lambda: eval("1"),
    }
    for event, attempt in attempts.items():
        with pytest.raises(ConfinementError) as denied, confined():
            attempt()
        assert denied.value.event == event
    assert not (tmp_path / "x").exists()


def test_no_finalizer_of_others_runs_in_the_window() -> None:
    with confined():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_outside_the_window_and_in_other_threads_nothing_is_denied(tmp_path: Path) -> None:
    begin, done = threading.Event(), threading.Event()

    def other() -> None:
        begin.wait(5)
        (tmp_path / "other").write_text("x")
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with confined():
        begin.set()
        assert done.wait(5)
    thread.join()
    (tmp_path / "mine").write_text("x")
    assert sorted(os.listdir(tmp_path)) == ["mine", "other"]


def test_solving_needs_nothing_that_is_denied_even_in_a_fresh_process() -> None:
    """Every import has happened before the window opens."""
    prompts = [render_prompt(ask, SECTIONS, candidates=4) for ask in Ask]
    program = f"from apex_repair.backend import think\nfor p in {prompts!r}: think(p, 0)"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


# --- any prompt ------------------------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=300))
def test_no_text_upsets_it(text: str) -> None:
    assert generate(text, 100).status in (LLMStatus.OK, LLMStatus.LENGTH)


bodies = st.one_of(
    st.text(max_size=120),
    st.lists(st.sampled_from([*SOURCE.splitlines(), "", "  x = [", "else:", "\treturn", "'''"]), max_size=12).map(
        "\n".join
    ),
    st.from_regex(r"\A(\S{1,8}:\d{1,9}( \d\.\d\d| \| [a-z =<]{1,9} \| [a-z =<]{1,9} \| pass 1/3 -> 2/3)\n?){1,3}\Z"),
)
sections = st.builds(
    Section, st.sampled_from(Kind), bodies, st.sampled_from(["", "pkg/a.py:10 clamp", "a.py:3", "x", "tests.T.test"])
)


@settings(deadline=None, max_examples=250)
@given(st.sampled_from(Ask), st.lists(sections, max_size=7), st.integers(0, 30), st.integers(0, 3))
def test_no_sections_upset_it_and_candidates_stay_in_form(ask: Ask, given: list[Section], k: int, seed: int) -> None:
    parts = think(render_prompt(ask, given, candidates=k), seed)
    text = "\n".join(parts)
    if ask is Ask.REPAIR and text.startswith("CANDIDATE"):
        assert len(parse_candidates(text)) == len(parts) <= max(1, min(k, 20))
    elif ask is Ask.REVIEW:
        assert parse_lines(text, "VERDICT")[0][0] in ("accept", "reject")
    elif ask is Ask.SUMMARIZE:
        assert len(parse_lines(text, "SUMMARY")) == len(parts) <= 8


@pytest.mark.parametrize(
    "body",
    [
        "(" * 5000,
        "x = " + "-" * 20000 + "1",
        "x" + "[0]" * 3000,
        "x = " + "9" * 5000,
        "x = 10 ** 3 + " + "1" * 4200,
        "a\0b",
        "::" * 9000,
        "1" * 30000,
    ],
)
@pytest.mark.parametrize("ask", Ask)
def test_hostile_source_is_read_or_left(ask: Ask, body: str) -> None:
    kinds = (Kind.FUNCTION, Kind.MAP, Kind.FAILING, Kind.TRIED, Kind.DIFF, Kind.SUSPICIOUS)
    assert think(render_prompt(ask, [Section(kind, body, "a.py:1 f") for kind in kinds], candidates=2), 0)


def test_a_huge_number_of_candidates_is_malformed_or_bounded() -> None:
    assert think("APEX PROMPT 1\nTASK repair " + "9" * 6000 + "\n", 0)[0].startswith("I could not read")
    assert len(think(render_prompt(Ask.REPAIR, SECTIONS, candidates=10**9), 0)) <= 20
