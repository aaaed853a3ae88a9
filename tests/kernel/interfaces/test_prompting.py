"""The section grammar: what is rendered is read back, and malformed answers are refused with a reason."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_framework.interfaces.prompting import (
    Ask,
    Candidate,
    Edit,
    GrammarError,
    Kind,
    Section,
    apply_edit,
    parse_candidates,
    parse_lines,
    parse_prompt,
    parse_sections,
    render_candidates,
    render_lines,
    render_prompt,
    render_sections,
    tried_line,
)

# str.splitlines splits at more than \n; source text is kept to what survives a round trip by lines.
LINE = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp", "Cs")), max_size=30)
BODY = st.lists(LINE, min_size=1, max_size=5).map("\n".join).filter(lambda t: t == "\n".join(t.splitlines()))
LABEL = st.text("abcxyz/.:_ 123", max_size=12).map(lambda t: " ".join(t.split()))
SECTION = st.builds(Section, st.sampled_from(list(Kind)), BODY, LABEL)


@given(st.lists(SECTION, max_size=6))
def test_sections_survive_a_round_trip(sections: list[Section]) -> None:
    assert parse_sections(render_sections(sections)) == tuple(sections)


@given(st.sampled_from(list(Ask)), st.lists(SECTION, min_size=1, max_size=4), st.integers(1, 9))
def test_a_prompt_survives_a_round_trip(ask: Ask, sections: list[Section], candidates: int) -> None:
    prompt = parse_prompt(render_prompt(ask, sections, instruction="Do it.\nWell.", candidates=candidates))
    assert (prompt.ask, prompt.sections, prompt.candidates) == (ask, tuple(sections), candidates)
    assert prompt.instruction == "Do it.\nWell."


def test_a_source_line_that_looks_like_a_title_is_no_title() -> None:
    section = Section(Kind.FUNCTION, "x = [\n[[ISSUE]]\n]", "a.py:1 f")
    assert parse_sections(render_sections([section])) == (section,)


@pytest.mark.parametrize("text", ["", "hello", "APEX PROMPT 1\nTASK dance 1\n", "APEX PROMPT 1\nTASK repair\n"])
def test_what_is_no_prompt_is_refused(text: str) -> None:
    with pytest.raises(GrammarError):
        parse_prompt(text)


EDIT = Edit("pkg/a.py", 3, "    return x", "    return x + 1")


def test_candidates_survive_a_round_trip() -> None:
    candidates = (Candidate((EDIT,), "off by one"), Candidate((EDIT, Edit("pkg/b.py", 1, "a\nb", ""))))
    assert parse_candidates(render_candidates(candidates)) == candidates


def test_an_answer_that_was_cut_off_keeps_its_complete_candidates() -> None:
    text = render_candidates([Candidate((EDIT,), "one"), Candidate((EDIT,), "two")])
    assert parse_candidates(text[: text.rindex("=======")]) == (Candidate((EDIT,), "one"),)


@pytest.mark.parametrize("text", ["", "I would change line 3.", "FILE a.py:1\n", "CANDIDATE 1\nFILE a.py\nno search"])
def test_malformed_candidates_are_refused(text: str) -> None:
    with pytest.raises(GrammarError):
        parse_candidates(text)


@given(st.text(max_size=200))
def test_parsing_an_answer_raises_nothing_but_a_grammar_error(text: str) -> None:
    for parse in (parse_candidates, lambda t: parse_lines(t, "FOCUS")):
        with contextlib.suppress(GrammarError):
            parse(text)


def test_an_edit_goes_to_the_occurrence_nearest_to_its_line() -> None:
    source = "x = 1\ny = 2\nx = 1\n"
    assert apply_edit(source, Edit("a.py", 3, "x = 1", "x = 2")) == "x = 1\ny = 2\nx = 2\n"
    assert apply_edit(source, Edit("a.py", 1, "x = 1", "")) == "y = 2\nx = 1\n"
    with pytest.raises(GrammarError):
        apply_edit(source, Edit("a.py", 1, "z", ""))


def test_lines_of_an_answer_survive_a_round_trip() -> None:
    items = (("a.py::f", "named in the issue"), ("a.py::g", ""))
    assert parse_lines(render_lines("FOCUS", items), "FOCUS") == items


def test_a_tried_line_names_place_change_and_outcome() -> None:
    assert tried_line(Candidate((EDIT,)), "pass 1/3") == "pkg/a.py:3 | return x | return x + 1 | pass 1/3"
